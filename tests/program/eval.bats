#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# `acquire --output env` without a lock: a line that fails when a shell evaluates it. What is wrong
# with a command line alone is in tests/pure/cli/command_line_test.
load common

# closed STATUS ARGUMENT...: dlock ends with STATUS, and its output is the line that says so.
closed() {
  local wanted=$1
  shift
  run --separate-stderr timeout 20 "$DLOCK" "$@"
  assert_equal "$status: $output" "$wanted: (exit $wanted)"
}
# ended PID: waits for it and leaves its status in $status.
ended() { status=0 && { wait "$1" || status=$?; }; }

@test "a variable or a file that asks for it" {
  echo 'output = "env"' >env.toml
  "$DLOCK" acquire --key k >/dev/null
  DLOCK_OUTPUT=env closed 75 acquire -n --key k
  closed 75 acquire -n --key k --config env.toml
  run --separate-stderr -75 "$DLOCK" acquire -n --key k --config env.toml --output text
  assert_output ''
  DLOCK_OUTPUT=env run --separate-stderr -75 "$DLOCK" run -n --key k -- true
  assert_output ''
}

@test "busy, by -n, by -w, with a status of its own; a store that cannot be reached" {
  "$DLOCK" acquire --key k >/dev/null
  closed 75 acquire -n --key k --output env
  closed 75 acquire -w 100ms --key k --output env
  closed 9 acquire -n -E 9 --key k --output env
  closed 75 acquire --keep -n --key k --output env
  closed 75 acquire --hold -n --key k --output env
  closed 73 acquire --key k --output env -b file:/nonexistent/locks/of
  if built_with redis; then closed 69 acquire -n --key k --output env -b redis://127.0.0.1:1; fi
}

@test "a signal that ends the wait, in each form" {
  "$DLOCK" acquire --key k >/dev/null
  for form in '' --keep --hold; do
    for signal in TERM INT HUP QUIT; do
      env --default-signal=$signal "$DLOCK" acquire $form --key k \
        --output env >out 2>/dev/null </dev/null &
      eventually waiting 1 k
      kill -$signal $!
      ended $!
      assert_equal "$form $signal: $(cat out)" "$form $signal: (exit $status)"
      assert [ "$status" -gt 128 ]
      eventually waiting 0 k
    done
  done
}

@test "a signal that comes before the lock was asked for" {
  mkfifo -m 600 settings
  env --default-signal=TERM "$DLOCK" acquire --key k --output env --config settings >out &
  dlock=$!
  exec 9>settings # opened by dlock, which now reads it
  kill -TERM $dlock
  ended $dlock
  exec 9>&-
  assert_equal "$status: $(cat out)" '143: (exit 143)'
}

@test "the watched process ends before the lock was granted" {
  "$DLOCK" acquire --key k >/dev/null
  sleep 300 3>&- &
  watched=$!
  timeout 20 "$DLOCK" acquire --keep --watch-pid $watched --key k --output env >out 2>err &
  eventually waiting 1 k
  kill $watched
  ended $!
  assert_equal "$status: $(cat out)" '75: (exit 75)'
  assert_equal "$(tail -n 1 err)" \
    'dlock: acquire: the process that --watch-pid names has ended: the lock was not taken'
}

@test "a reader that has gone, or does not read, changes neither the status nor the time" {
  "$DLOCK" acquire --key k >/dev/null
  { timeout 20 "$DLOCK" acquire -n --key k --output env || echo $? >status; } | true
  eventually test -s status
  assert_equal "$(cat status)" 75
  mkfifo full
  exec 9<>full
  timeout 1 sh -c 'while :; do echo filling; done' >&9 || : # until it is full
  run -75 timeout 20 "$DLOCK" acquire -n --key k --output env >&9
}

@test "a lock that was taken and kept is lost later: the line comes after it" {
  mkfifo input
  exec 8<>input # which does not end
  timeout 60 "$DLOCK" acquire --hold --key k --output env >out 2>/dev/null <&8 &
  eventually is_held k
  eventually grep -q TTL_MS out
  "$DLOCK" release --force --yes --key k 2>/dev/null
  ended $!
  assert_equal "$status: $(tail -n 1 out)" '123: (exit 123)'
  run -123 sh -c "$(cat out)"
}

# The lines of PAGE from the one that takes the lock to the one that gives it back.
example_of() {
  sed -n '/^\.Bd -literal/,/^\.Ed/p' "$BATS_TEST_DIRNAME/../../man/$1" |
    sed -n '/^grant=\$(dlock acquire/,/^trap /p' | sed 's/\\-/-/g'
}

@test "the example of the manual in each shell: with the lock, or with none of the steps" {
  mkdir bin
  ln -s "$DLOCK" bin/dlock
  PATH=$PWD/bin:$PATH
  example=$(example_of dlock-acquire.1)
  assert_equal "$(grep -c . <<<"$example")" 3
  assert_equal "$example" "$(example_of dlock.1)"
  printf '%s\n' "$example" 'echo "with $DLOCK_TOKEN"' \
    'dlock check migrate --token "$DLOCK_TOKEN"' >free.sh
  sed 's/-w 10s/-w 200ms/' free.sh >busy.sh
  # The old form stops with set -e, or where its status is asked for.
  echo 'eval "$(dlock acquire -n --key migrate --output env)" || exit; echo on' >asked.sh
  echo 'set -e; eval "$(dlock acquire -n --key migrate --output env)"; echo on' >set_e.sh
  for shell in dash 'bash --posix' bash ksh mksh zsh 'busybox sh'; do
    command -v "${shell% *}" >/dev/null || continue
    run -0 timeout 60 $shell free.sh
    assert_regex "$shell: $output" 'with [1-9][0-9]*$'
    is_free migrate
    handle=$("$DLOCK" acquire --key migrate)
    for script in busy asked set_e; do
      run --separate-stderr timeout 60 $shell $script.sh
      assert_equal "$shell $script: $status $output" "$shell $script: 75 "
    done
    "$DLOCK" release migrate --handle "$handle"
  done
}
