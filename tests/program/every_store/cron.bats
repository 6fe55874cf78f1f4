#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# For cron: --min-hold, --once-per, --splay, -E 0.
load stores

# runs TEST OPTION...: on eight hosts, in each tick, the job runs so often that `n TEST` is true.
runs() {
  python3 "$BATS_TEST_DIRNAME/../../support/cron_hosts.py" --ticks "${DLOCK_TEST_TICKS:-5}" \
    "$DLOCK" -b "$DLOCK_BACKEND" -n -E 0 "${@:2}" >hosts
  json_is '(True, [0])' "(all(n $1 for n in j['runs']), j['statuses'])" <hosts
}

@test "--min-hold: eight hosts run a job exactly once per tick" {
  runs '== 1' --ttl 1h --min-hold 50m
}

@test "--once-per: eight hosts run a job exactly once per tick" {
  needs_starts
  runs '== 1' --once-per 1h
}

@test "without both the job runs more often: the two tests above can fail" {
  runs '> 1'
}

@test "--min-hold: the next tick runs, when the time is over and not before" {
  began=$(now_ms)
  for _ in 1 2; do run -0 timeout 20 "$DLOCK" run --key k --ttl 1h --min-hold 1s -- true; done
  [ $(($(now_ms) - began)) -ge 1000 ]
}

@test "--min-hold: dlock ends with the job, the lease is shortened to the remainder" {
  run -3 timeout 20 "$DLOCK" run --key k --ttl 1h --min-hold 20s -- sh -c 'exit 3'
  inspected True '0 < j["holders"][0]["lease_remaining_ms"] <= 20000' k
  run -75 "$DLOCK" run --key k -n -- true
}

@test "--min-hold of several keys: each is kept for the rest, and no longer" {
  run -0 timeout 20 "$DLOCK" run --key a --key b --ttl 1h --min-hold 20s -- true
  for key in a b; do
    inspected True '0 < j["holders"][0]["lease_remaining_ms"] <= 20000' $key
  done
}

@test "--min-hold: over when the job took longer, and not kept for a job that could not start" {
  run -0 "$DLOCK" run --key k --min-hold 1ms -- sleep 0.01
  is_free k
  run -127 "$DLOCK" run --key k --min-hold 1h -- /nonexistent
  is_free k
}

@test "--once-per: one start per period, busy gives its time, -E replaces the status" {
  needs_starts
  run -0 "$DLOCK" run --key k --once-per 1h -- echo ran
  assert_output ran
  refused 75 '--once-per 1h' run --key k --once-per 1h -- echo ran
  assert_regex "$stderr" 'k was started .* ago'
  run -5 "$DLOCK" run -q -E 5 --key k --once-per 1h -- echo ran
  assert_output ''
  run -0 "$DLOCK" run -E 0 --key k --once-per 1h -- echo ran
  assert_output ''
  is_free k
  run -0 "$DLOCK" run --key other --once-per 1h -- echo ran
  assert_output ran
  run -0 "$DLOCK" run --key k -- echo 'without the option it does not matter'
}

@test "--once-per: a job that failed has started, one that could not be executed has not" {
  needs_starts
  run -7 "$DLOCK" run --key k --once-per day -- sh -c 'exit 7'
  run -75 "$DLOCK" run --key k --once-per day -- true
  run -127 "$DLOCK" run --key z --once-per day -- /nonexistent
  run -126 "$DLOCK" run --key z --once-per day -- /etc/passwd
  run -0 "$DLOCK" run --key z --once-per day -- true
}

@test "--again starts although the job ran, and is noted" {
  needs_starts
  run -0 "$DLOCK" run --key k --once-per 2s --again -- echo first
  assert_output first
  began=$(now_ms)
  run -0 "$DLOCK" run --key k --once-per 2s --again -- echo again
  assert_output again
  # Noted: 2 s less the slack from the second start, not from the first.
  until "$DLOCK" run -q --key k --once-per 2s -- true; do sleep 0.02; done
  [ $(($(now_ms) - began)) -ge 1500 ]
  run -127 "$DLOCK" run --key k --once-per 1h --again -- /nonexistent
  run -75 "$DLOCK" run --key k --once-per 1h -- true # the run before is still noted
}

@test "--until-success: a run that failed does not count, one that succeeded does" {
  needs_starts
  daily() { "$DLOCK" run --key k --once-per day --until-success "$@"; }
  run -7 daily -- sh -c 'exit 7'
  run -124 daily --max-run 100ms -- sleep 100
  run -143 daily -- sh -c 'kill -TERM $$'
  run -3 daily --min-hold 10ms --ttl 1h -- sh -c 'exit 3'
  eventually is_free k
  run -0 daily -- echo ran
  assert_output ran
  refused 75 'was started' run --key k --once-per day --until-success -- echo ran
  # A run by hand that fails does not take away the one that succeeded.
  run -1 daily --again -- false
  refused 75 'was started' run --key k --once-per day --until-success -- echo ran
}

@test "--until-success: a run whose end was not seen counts" {
  needs_starts
  "$DLOCK" run --ttl $SHORT --key k --once-per day --until-success -- sleep 100 &
  eventually is_held k
  eventually sh -c '"$DLOCK" inspect -J k | grep -q "\"holders\":\[{"'
  eventually pgrep -P "$(pgrep -P $!)" sleep >/dev/null
  end_of $!
  # After the lease.
  run -75 timeout 20 "$DLOCK" run --key k --once-per day --until-success -- echo ran
  assert_output --partial 'k was started'
}

@test "--once-per: the record expires with the period" {
  needs_starts
  "$DLOCK" run --key k --once-per 200ms -- true
  if on_file; then [ -e locks/k/started ]; fi
  sleep 0.25
  "$DLOCK" run --key k --once-per 200ms -- false || :
  on_file || skip 'redis: the record has an expiry of the server'
  sleep 0.25
  run -127 "$DLOCK" run --key k --once-per 200ms -- /nonexistent
  [ ! -e locks/k/started ]
}

@test "--once-per: a second run waits for the lock, then finds the start of the first" {
  needs_starts
  mkfifo go
  "$DLOCK" run --key k --once-per 1h -- cat go &
  eventually is_held k
  "$DLOCK" run --key k --once-per 1h -- touch twice 2>second.err &
  second=$!
  eventually sh -c '"$DLOCK" inspect -J k | grep -q "\"waiters\":\[{"'
  : >go
  wait "$second" && fail 'it ran twice'
  [ ! -e twice ]
  grep -q 'was started' second.err
}

@test "--splay: a random time up to D, which a signal ends" {
  run -0 "$DLOCK" run --key k --splay 50ms -- echo ran
  assert_output ran
  # -n: no wait for the lock, but the splay comes before it; TERM ends it.
  run -143 timeout --preserve-status -s TERM 1 "$DLOCK" run --key k -n --splay 100d -- touch ran
  [ ! -e ran ]
}
