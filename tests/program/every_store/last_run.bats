#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What inspect shows of the last run of a key.
load stores

needs_last_run() {
  "$DLOCK" run --key probe -- true
  [ "$("$DLOCK" inspect -J probe | json 'j.get("last_run")')" != None ] ||
    skip 'this recipe does not keep the last run'
}

@test "the last run of a free key: where, by which user, when, how long, how it ended" {
  needs_last_run
  run -3 "$DLOCK" run --key k --reason nightly -- sh -c 'exit 3'
  run -0 "$DLOCK" inspect k
  assert_line --regexp '^state +free'
  assert_line --regexp "^last run +$(hostname):[0-9]+ \\($(id -un)\\), token [0-9]+, exit status 3$"
  assert_line --regexp '^ +started 20[0-9-]+T[0-9:.]+Z, lasted [0-9.]+m?s$'
  inspected '(True, 3, None)' \
    'j["last_run"]["token"] == j["token"], j["last_run"]["exit_status"], j["last_run"]["signal"]' k
  run -143 "$DLOCK" run --key k -- sh -c 'kill $$'
  run -0 "$DLOCK" inspect k
  assert_line --regexp '^last run .*, ended by signal 15 \(TERM\)$'
  # a lease that no job ran under leaves it as it is
  "$DLOCK" acquire --key k >handle
  "$DLOCK" release --key k --handle @handle
  inspected 15 'j["last_run"]["signal"]' k
}

@test "a run of several keys, and one with --min-hold" {
  needs_last_run
  run -4 "$DLOCK" run --key a --key b --min-hold 200ms -- sh -c 'exit 4'
  for key in a b; do inspected 4 'j["last_run"]["exit_status"]' $key; done
}

@test "a command that cannot be started is no run" {
  needs_last_run
  run -127 "$DLOCK" run --key k -- ./is-not-there
  inspected None 'j["last_run"]' k
}

@test "dlock is killed: the start is known where it was noted, and the end is not" {
  needs_last_run
  needs_starts
  "$DLOCK" run --ttl "$SHORT" --key k --once-per 1h -- sh -c 'echo >up; sleep 60' 3>&- &
  eventually test -e up
  refute_line_of_inspect 'end unknown' # it runs
  kill -9 $!
  eventually is_free k
  run -0 "$DLOCK" inspect k
  assert_line --regexp \
    '^last run +started 20[0-9-]+T[0-9:.]+Z, [0-9.]+[um]?s ago, with --once-per, end unknown$'
  started_lines 1
  "$DLOCK" run --key k -- true
  refute_line_of_inspect 'end unknown'
}

@test "a start of --once-per and the last run: a line for each run, and none twice" {
  needs_last_run
  needs_starts
  "$DLOCK" run --key k --once-per 1h -- true
  started_lines 1
  "$DLOCK" run --key k -- true # not that of --once-per
  started_lines 2
  assert_line --regexp '^once-per last started 20[0-9-]+T[0-9:.]+Z, [0-9.]+[um]?s ago$'
  "$DLOCK" run --ttl "$SHORT" --key k --once-per 1h --again -- sh -c 'echo >up; sleep 60' 3>&- &
  eventually test -e up
  started_lines 2
  assert_line --regexp '^started +20[0-9-]+T[0-9:.]+Z, [0-9.]+[um]?s ago, with --once-per$'
  assert_line --regexp '^earlier +.*, exit status 0$'
  kill -9 $!
  eventually is_free k
  started_lines 2
  assert_line --regexp '^last run +started 20[0-9-]+T[0-9:.]+Z, .*, end unknown$'
  assert_line --regexp '^earlier +.*, exit status 0$'
}

started_lines() {
  run -0 "$DLOCK" inspect k
  assert_equal "$(grep -c started <<<"$output")" "$1"
}

refute_line_of_inspect() {
  run -0 "$DLOCK" inspect k
  refute_output --partial "$1"
}
