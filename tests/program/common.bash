# SPDX-License-Identifier: Apache-2.0
# For what of the tests of the command line is not in Python (harness.py). $DLOCK is the binary,
# $DLOCK_FAKE the one with the fake backend; each test has its own directory, in which it runs, and
# a store `locks` there.
bats_require_minimum_version 1.5.0
bats_load_library bats-support
bats_load_library bats-assert
[[ ${DLOCK:-} == /* ]] || {
  echo 'DLOCK is not the whole path of a dlock: tests/README.md' >&2
  exit 1
}

# What a test begins with that has a store of its own way.
clean_environment() {
  local variable
  for variable in ${!DLOCK_@}; do
    [[ $variable == DLOCK_@(FAKE|TEST_MUTANT) ]] || unset "$variable"
  done
  export -n DLOCK_FAKE # no option of dlock, which would say so
  cd "$BATS_TEST_TMPDIR" || return
}
common_setup() {
  clean_environment
  export DLOCK_BACKEND=file:$BATS_TEST_TMPDIR/locks
}
setup() { common_setup; }

# built_with BACKEND...: dlock has all of these.
built_with() {
  local backend version
  version=$("$DLOCK" --version)
  for backend; do grep -q "^$backend: .*(default)" <<<"$version" || return 1; done
}
needs_backend() { built_with "$@" || skip "built without $*"; }

# json EXPRESSION <<<TEXT: a Python expression over the value `j`.
json() { python3 -c 'import json, sys; j = json.load(sys.stdin); print(eval(sys.argv[1]))' "$1"; }
# listed WANTED ARGUMENT...: that is what `inspect --no-heading ARGUMENT...` prints.
listed() {
  run -0 "$DLOCK" inspect --no-heading "${@:2}"
  assert_equal "$output" "$1"
}

is_held() { run -75 "$DLOCK" inspect --check "$1"; }
is_free() { run -0 "$DLOCK" inspect --check "$1"; }
# waiting N KEY: so many wait for it.
waiting() { [ "$("$DLOCK" inspect "$2" --no-heading -o WAIT)" = "$1" ]; }

# eventually COMMAND ARGUMENT...: repeats it until it succeeds, at most 20 s.
eventually() {
  local end=$((SECONDS + 20))
  until "$@"; do
    ((SECONDS < end)) || fail "not within 20 s: $*"
    sleep 0.02
  done
}

# In the background, as $pid: `run` with a job that sleeps.
hold_by_job() { # KEY OPTION...
  "$DLOCK" run --key "$@" -- sleep 300 3>&- &
  pid=$!
  eventually is_held "$1"
}
# end_of PID [SIGNAL]: sends it KILL, or SIGNAL, and leaves the status of its end in $status.
end_of() {
  kill -"${2:-KILL}" "$1"
  wait "$1" && status=0 || status=$?
}
