#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# `dlock run` while it waits, and without a wait.
load run_helpers

# holder: holds the key until `touch let_go`.
held="k is held by $(hostname):[0-9]+ \([a-z0-9_-]+\) for [0-9a-z.]+: the nightly backup"
holder() {
  start holder on_file --reason 'the nightly backup' "$@" -- \
    sh -c 'until [ -e let_go ]; do sleep 0.02; done'
  event holder acquired
}

@test "busy: 75 or the status of -E, at once or after -w; a line that names the holder, or none" {
  holder
  run -75 on_file -n -- touch ran
  assert_output --regexp "^dlock: $held; not waiting$"
  run -75 on_file -w 0 -- touch ran
  assert_output --partial 'not waiting'
  run -9 on_file -n -E 9 -- touch ran
  assert_output --partial 'k is held by'
  run -0 on_file -n -E 0 -- touch ran
  refute_output
  run -75 on_file -n -q -- touch ran
  refute_output
  local began=$EPOCHREALTIME
  run -75 on_file -w 700ms -- touch ran
  (((${EPOCHREALTIME/[.,]/} - ${began/[.,]/}) >= 700000))
  [ ! -e ran ]
}

@test "a state that another process has locked is no answer: 69, and the process is named" {
  on_file -- true
  exec {lock}<>locks/k/state
  DLOCK_TEST_RUN=$BATS_TEST_TMPDIR flock "$lock"
  run -69 on_file -w 700ms -- touch ran
  assert_output --partial "state has been locked by process "
  run -69 on_file -n -- touch ran
  assert_output --partial "state has been locked for 1000 ms by process "
  exec {lock}>&-
  [ ! -e ran ]
}

@test "another program's lock: its process is named, no queue position, and --force --yes" {
  local url="file:$dir/locks?recipe=flock"
  on_file -b "$url" -- true # so that inspect lists the key
  DLOCK_TEST_RUN=$BATS_TEST_TMPDIR flock locks/k \
    sh -c 'touch has_it; until [ -e let_go ]; do sleep 0.02; done' 3>&- &
  local other=$!
  until_true 'the other lock' test -e has_it
  run -75 on_file -b "$url" -n -- touch ran
  assert_output --regexp "^dlock: k is held by process [0-9]+, which is not dlock's; not waiting$"
  run on_file -b "$url" -w 700ms -- touch ran
  assert_line --index 0 --regexp '; waiting up to 700ms$'
  run "$DLOCK" inspect -b "$url" k
  assert_line --regexp '^holder +.*:[0-9]+, no token$'
  assert_line --regexp '^force .* --force --yes$'
  run "$DLOCK" inspect -b "$url"
  assert_line '1 key, 1 held, ? waiting'
  touch let_go
  wait $other
  [ ! -e ran ]
}

@test "recipe flock: a file that is replaced while it is waited for is not the lock any more" {
  waits_at() { grep -q -- "-> FLOCK .*:$1 " /proc/locks; }
  locked_by_another() { # NAME: until `touch NAME.end`
    DLOCK_TEST_RUN=$BATS_TEST_TMPDIR flock locks/k \
      sh -c "touch $1; until [ -e $1.end ]; do sleep 0.02; done" 3>&- &
    until_true "the lock of $1" test -e "$1"
  }
  locked_by_another first
  start waiter on_file -b "file:$dir/locks?recipe=flock" -- touch ran
  until_true 'a waiter' waits_at "$(stat -c %i locks/k)"
  mv locks/k old
  locked_by_another second
  touch first.end # now the waiter has the lock of the old file
  waits_or_ran() { [ -e ran ] || waits_at "$(stat -c %i locks/k)"; }
  until_true 'the waiter at the new file' waits_or_ran
  [ ! -e ran ]
  touch second.end
  ended waiter 'exit 0'
  [ -e ran ]
}

@test "a damaged state: a waiter reports it, and goes on waiting" {
  holder --op-timeout 500ms
  start waiter on_file -w 1h -- true
  one_waits() { [ "$(waiters)" -eq 1 ]; }
  until_true 'a waiter' one_waits
  for at in 0 1048576; do
    printf 'not a state at all' | dd of=locks/k/state bs=1 seek=$at conv=notrunc status=none
  done
  touch let_go
  says waiter 'state: is damaged'
  rm locks/k/state # as the message advises, when no job runs under it
  ended waiter 'exit 0'
}

@test "-w: granted in time" {
  holder
  start next on_file -w 20s -- echo got
  event next waiting
  touch let_go
  ended next 'exit 0'
  assert_equal "$(cat next.out)" got
  assert_equal "$(events next)" 'waiting acquired job_dead released exit'
}

@test "the waiting line: after 500 ms, once, with holder, reason, bound and position" {
  holder
  start first on_file -w 30s -- true
  event first waiting
  start second on_file -- true
  says first 'k is held by'
  says second '(position 2)'
  run cat first.err
  assert_output --regexp "^dlock: $held; waiting up to 30s \(position 1\)$"
  run cat second.err
  assert_output --regexp "; waiting \(position 2\)$"
  touch let_go
  ended second
  ended first
  assert_equal "$(wc -l <first.err)" 1
}

@test "the waiting line: none when the lock comes sooner, none with -q" {
  faults=grant_after=200ms run -0 on_lease -- true
  refute_output
  faults=grant_after=1200ms run -0 on_lease -q -- true
  refute_output
}

@test "INT, TERM, HUP, QUIT while waiting: leaves the queue and dies of that signal" {
  holder
  for sig in INT TERM HUP QUIT; do
    start "w$sig" on_file -- touch ran
    event "w$sig" waiting
    until_true 'a waiter' test "$(waiters)" = 1
    send "w$sig" "$sig"
    ended "w$sig" "signal $(kill -l "$sig") ($sig)"
    assert_equal "$(waiters)" 0
  done
  [ ! -e ran ]
  touch let_go
  ended holder
  key_is_free
}

@test "an unknown outcome never starts the command" {
  faults=lose=acquire
  run on_lease -w 3s --ttl 4s -- sh -c 'echo "$DLOCK_TOKEN"'
  # A repeated request recognises its own grant, so it is granted, once.
  assert_success
  assert_equal "${#lines[@]}" 1
  [ "${lines[0]}" -gt 1000000 ] # the token of the store
  # Without a second request: granted, perhaps, and not started.
  run -69 on_lease -n --ttl 4s -- touch ran
  assert_output --partial 'no answer in time'
  [ ! -e ran ]
}

@test "unreachable at the start: 69, and the command is not run" {
  while read -r fault status options; do
    # shellcheck disable=SC2086
    faults=fail_open=$fault run -"$status" on_lease $options -- touch ran
    assert_output --regexp '^dlock: '
  done <<'X'
unavailable 69 --connect-timeout 300ms
unavailable 69 -n
unavailable 69 -w 500ms
denied 77
cannot_create 73
X
  [ ! -e ran ]
}

@test "a start that comes too late is refused; dlock queues again, and the command runs once" {
  faults=grant_after=3s
  start it on_lease --ttl 2s -- sh -c 'echo ran'
  event it waiting
  kill -STOP "$(guard_of it)"
  # With the second renewal the first grant's time to end the command has passed; the guard must not
  # start it then.
  until_true 'two renewals' sh -c '[ "$(grep -c renewed it.events)" -ge 2 ]'
  kill -CONT "$(guard_of it)"
  ended it 'exit 0'
  assert_equal "$(cat it.out)" ran
  assert_regex "$(events it)" 'acquired renewed renewed .*acquired .*job_dead released exit$'
}
