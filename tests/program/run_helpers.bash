# SPDX-License-Identifier: Apache-2.0
# For tests of `dlock run`. $DLOCK and $DLOCK_FAKE are the programs under test, $PROBE, $PTY_DRIVE,
# $SIGNAL_JOB and $RESISTING_TREE are tools; CTest sets them. Every wait is for an event, with a
# bound of 20 s.
load common

setup() {
  clean_environment
  if (: </dev/tty) 2>/dev/null; then
    fail 'these tests want no terminal: run them by ctest, or under setsid -w'
  fi
  dir=$BATS_TEST_TMPDIR
  mkdir -m 700 locks
}

# Kills the processes that a failed test left: found by their environment, as they inherit
# BATS_TEST_TMPDIR.
teardown() {
  local environ pid
  for environ in /proc/[0-9]*/environ; do
    pid=${environ%/environ} pid=${pid#/proc/}
    [ "$pid" = $$ ] || [ "$pid" = "$BASHPID" ] && continue
    if grep -qzFx "DLOCK_TEST_RUN=$BATS_TEST_TMPDIR" "$environ" 2>/dev/null; then
      kill -9 "$pid" 2>/dev/null || :
    fi
  done
}

# on_file / on_lease ARGUMENTS...: dlock run on a fresh `file:` store, or on the fake leased backend
# with $faults.
on_file() { DLOCK_TEST_RUN=$BATS_TEST_TMPDIR "$DLOCK" run -b "file:$dir/locks" --key k "$@"; }
on_lease() {
  DLOCK_TEST_RUN=$BATS_TEST_TMPDIR "$DLOCK_FAKE" run -b "fake:?${faults:-}" --key k "$@"
}

# start NAME on_file|on_lease ARGUMENTS...: in the background; events in NAME.events, stderr in
# NAME.err, stdout in NAME.out.
# $before: words before it, such as env --block-signal=TERM.
# ended NAME [END]: waits for its end, which is `exit 0` or `signal 15 (TERM)`: END, if given.
start() {
  local name=$1 kind=$2 program backend
  shift 2
  case $kind in
    on_file) program=$DLOCK backend=file:$dir/locks ;;
    on_lease) program=$DLOCK_FAKE backend="fake:?${faults:-}" ;;
  esac
  DLOCK_TEST_RUN=$BATS_TEST_TMPDIR "${before[@]}" "$PROBE" end "$dir/$name.end" \
    "$program" run -b "$backend" --key k \
      --status "$dir/$name.events" "$@" >"$dir/$name.out" 2>"$dir/$name.err" 3>&- &
  until_true "start of $name" test -s "$dir/$name.end.pid"
}
pid_of() { cat "$dir/$1.end.pid"; }
guard_of() { cat "/proc/$(pid_of "$1")/task/$(pid_of "$1")/children"; } # dlock's only child
send() { kill -s "$2" "$(pid_of "$1")"; }
ended() {
  until_true "end of $1" test -s "$dir/$1.end"
  [ $# -eq 1 ] || assert_equal "$(cat "$dir/$1.end")" "$2"
}

# until_true WHAT COMMAND...: until COMMAND succeeds.
until_true() {
  local what=$1 tries
  shift
  for ((tries = 0; tries < 1000; tries++)); do
    if "$@" 2>/dev/null; then return 0; fi
    sleep 0.02
  done
  tail -n 5 "$dir"/*.err "$dir"/*.events >&2 || :
  fail "did not happen in 20 s: $what"
}
# event NAME WHICH: until NAME.events has WHICH; events NAME: all their names in one line.
event() { until_true "event $2 of $1" grep -q "\"event\":\"$2\"" "$dir/$1.events"; }
events() { sed 's/.*"event":"\([a-z_]*\)".*/\1/' "$dir/$1.events" | tr '\n' ' ' | sed 's/ $//'; }
says() { until_true "line '$2' of $1" grep -qF -- "$2" "$dir/$1.err"; }
said() { until_true "output '$2' of $1" grep -qF -- "$2" "$dir/$1.out"; }

# key_is_free: the key is free at once.
key_is_free() { on_file -n -- true; }
# waiters: the number of waiters for the key.
waiters() {
  "$DLOCK" inspect -b "file:$dir/locks" -J k | tr -d ' \n' |
    sed 's/.*"waiters":\[\([^]]*\)\].*/\1/' | grep -o '{' | wc -l
}
