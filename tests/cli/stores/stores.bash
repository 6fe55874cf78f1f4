# SPDX-License-Identifier: Apache-2.0
# For tests that run on each kind of store: $STORE is file or redis. Each test has keys of its own.
# shellcheck source-path=SCRIPTDIR/..
load ../common

setup_file() {
  [ "$STORE" = redis ] || return 0
  "$REDIS_FIXTURE" "$BATS_FILE_TMPDIR/url" 3>&- >/dev/null 2>"$BATS_FILE_TMPDIR/fixture.err" &
  echo $! >"$BATS_FILE_TMPDIR/fixture.pid"
  local tries
  for ((tries = 0; tries < 1000; tries++)); do
    [ ! -s "$BATS_FILE_TMPDIR/url" ] || return 0
    if ! kill -0 "$(cat "$BATS_FILE_TMPDIR/fixture.pid")" 2>/dev/null; then
      if grep -q '^SKIPPED' "$BATS_FILE_TMPDIR/fixture.err"; then skip "redis-server is not installed"; fi
      break
    fi
    sleep 0.02
  done
  cat "$BATS_FILE_TMPDIR/fixture.err" >&2
  return 1
}

teardown_file() { [ "$STORE" != redis ] || kill "$(cat "$BATS_FILE_TMPDIR/fixture.pid")" 2>/dev/null || :; }

# A backend that was never used: file, or a prefix of the server.
setup() {
  common_setup
  dir=$BATS_TEST_TMPDIR
  export MARK_OF_TEST=$dir
  cd "$dir" || return
  [ "$STORE" != redis ] || export DLOCK_BACKEND="$(cat "$BATS_FILE_TMPDIR/url")/0?restart_grace=0&prefix=t$BATS_TEST_NUMBER:"
}

# Whatever a test has left behind, known by its environment.
teardown() {
  local environ pid
  for environ in /proc/[0-9]*/environ; do
    pid=${environ%/environ} pid=${pid#/proc/}
    [ "$pid" = $$ ] || [ "$pid" = "$BASHPID" ] && continue
    if grep -qzFx "MARK_OF_TEST=$BATS_TEST_TMPDIR" "$environ" 2>/dev/null; then kill -9 "$pid" 2>/dev/null || :; fi
  done
}

needs_starts() { # skips where the recipe cannot note when a job was started
  "$DLOCK" run --explain --key k --once-per 1h -- true >/dev/null 2>&1 || skip 'this recipe has no --once-per'
}
on_file() { [ "$STORE" = file ]; }

# milliseconds of CLOCK_BOOTTIME
now_ms() { awk '{print int($1 * 1000)}' /proc/uptime; }
