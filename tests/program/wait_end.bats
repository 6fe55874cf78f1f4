#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The end of a wait when a client library call never returns (hang_wait=N: from the Nth poll on).
# Without the limits tested here none of these would end.
load run_helpers

# within SECONDS COMMAND...: it ends in that time; a loaded machine gets as much again.
within() {
  local most=$1 began=$EPOCHREALTIME
  shift
  run "$@"
  python3 -c 'import sys; b, e, m = map(float, sys.argv[1:]); sys.exit(e - b > 2 * m)' "$began" \
    "$EPOCHREALTIME" "$most" ||
    fail "not within $most s: $* ($began to $EPOCHREALTIME): $output"
}

on_taken() {
  DLOCK_TEST_RUN=$BATS_TEST_TMPDIR "$DLOCK_FAKE" acquire -b "fake:?hang_wait=0" --key k "$@" 3>&-
}

@test "-w and -n end in time, as unavailable" {
  faults=hang_wait=0
  within 1.25 on_lease -w 1s -- touch ran
  assert_failure 69
  assert_output 'dlock: k: the store did not answer in time'
  within 1.75 on_lease -n --connect-timeout 1s --op-timeout 500ms -- touch ran
  assert_failure 69
  within 1.75 on_lease --connect-timeout 1s --op-timeout 500ms -- touch ran
  assert_failure 69
  within 1.25 on_lease -w 1s -E 0 -- touch ran
  assert_failure 69
  [ ! -e ran ]
}

@test "a wait whose store falls silent ends as unavailable, whatever was known of the holder" {
  faults='hang_wait=1&grant_after=1h'
  within 3.25 on_lease -w 3s -- touch ran
  assert_failure 69
  refute_output --partial 'is held by'
  [ ! -e ran ]
}

@test "the same for acquire, --hold and --keep" {
  local how
  for how in --ttl=30s --hold --keep; do
    within 1.25 on_taken -w 1s $how
    assert_failure 69
    assert_output 'dlock: k: the store did not answer in time'
    within 1.75 on_taken -n --connect-timeout 1s --op-timeout 500ms $how
    assert_failure 69
  done
}

@test "a signal ends the wait, sent once or twice" {
  faults=hang_wait=0
  start it on_lease -- touch ran
  until_true 'its keeper' sh -c '[ "$(ls "/proc/$1/task" | wc -l)" -ge 2 ]' sh "$(pid_of it)"
  send it TERM
  send it TERM || :
  within 1 ended it
  assert_success
  assert_equal "$(cat it.end)" 'signal 15 (TERM)'
  assert_equal "$(cat it.err)" ''
  [ ! -e ran ]
}

@test "a stopped job gets the signal that asks it to end" {
  start it on_file -k 60s -- \
    sh -c 'trap "echo got; exit 3" TERM; echo up $$; while :; do sleep 0.05; done'
  said it up
  job=$(sed -n 's/^up //p' it.out)
  kill -STOP "$job"
  until_true 'stop of the job' grep -q '^State:.T' "/proc/$job/status"
  send it TERM
  ended it 'exit 3'
  said it got
}
