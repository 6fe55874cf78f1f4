# SPDX-License-Identifier: Apache-2.0
# For the tests of the command line. $DLOCK is the binary, $DLOCK_FAKE the one with the fake
# backend; each test has its own directory, in which it runs, and a store `locks` there.
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

# Whether dlock was built with AddressSanitizer, which needs descriptors of its own.
sanitized() { grep -q __asan_init "$DLOCK"; }
# Its library, if it is one and not a part of dlock (Clang): it must be loaded first.
sanitizer() { ldd "$DLOCK" | sed -n 's/.*=> \(.*libasan[^ ]*\).*/\1/p'; }

# refused STATUS WORDS ARGUMENT...: dlock prints exactly one line, on stderr, that contains WORDS,
# and exits with STATUS.
refused() {
  local wanted=$1 words=$2
  shift 2
  run --separate-stderr timeout 20 "$DLOCK" "$@"
  if [[ $status -ne $wanted || -n $output || ${#stderr_lines[@]} -ne 1 ||
    $stderr != "dlock: "* || $stderr != *"$words"* ]]; then
    batslib_print_kv_multi 'dlock' "$*" 'wanted' "$wanted, one line with: $words" \
      'status' "$status" 'stdout' "$output" \
      'stderr' "$stderr" | batslib_decorate 'not refused as it should be' | fail
  fi
}

# built_with BACKEND...: dlock has all of these.
built_with() {
  local backend version
  version=$("$DLOCK" --version)
  for backend; do grep -q "^$backend: .*(default)" <<<"$version" || return 1; done
}
needs_backend() { built_with "$@" || skip "built without $*"; }

# with_item NAME=VALUE: the URL of $DLOCK_BACKEND with one more item.
with_item() {
  case $DLOCK_BACKEND in *\?*) echo "$DLOCK_BACKEND&$1" ;; *) echo "$DLOCK_BACKEND?$1" ;; esac
}

# json EXPRESSION <<<TEXT: a Python expression over the value `j`.
json() { python3 -c 'import json, sys; j = json.load(sys.stdin); print(eval(sys.argv[1]))' "$1"; }
# json_is WANTED EXPRESSION <<<TEXT: WANTED is its value.
json_is() { assert_equal "$(json "$2")" "$1"; }
# inspected WANTED EXPRESSION [ARGUMENT...]: of what `inspect --json ARGUMENT...` prints.
inspected() { "$DLOCK" inspect -J "${@:3}" 2>/dev/null | json_is "$1" "$2"; }

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

# In the background, as $pid: `run` with a job that sleeps; with one that ignores TERM; and
# `acquire --hold`, whose input does not end, and whose handle is in $handle.
hold_by_job() { # KEY OPTION...
  "$DLOCK" run --key "$@" -- sleep 300 3>&- &
  pid=$!
  eventually is_held "$1"
}
hold_by_stubborn_job() { # KEY OPTION...
  "$DLOCK" run --key "$@" -- sh -c 'trap "" TERM; echo >up; sleep 300' 3>&- &
  pid=$!
  eventually test -e up
  rm up
}
hold_by_input() { # KEY OPTION...
  rm -f input handles
  mkfifo input handles
  exec 6<>input 7<>handles
  # A background child of a script ignores INT; here it must not.
  env --default-signal=INT "$DLOCK" acquire --hold --key "$@" <&6 >&7 2>err 3>&- &
  pid=$!
  read -r -t 20 -u 7 handle
}
# end_of PID [SIGNAL]: sends it KILL, or SIGNAL, and leaves the status of its end in $status.
end_of() {
  kill -"${2:-KILL}" "$1"
  wait "$1" && status=0 || status=$?
}
