# SPDX-License-Identifier: Apache-2.0
# For tests that run on each kind of store: $STORE is file, redis, redlock, zookeeper, etcd, mysql
# or postgresql. Each test has its own keys.
# shellcheck source-path=SCRIPTDIR/..
load ../common

setup_file() { # one server for the suite
  [ "$STORE" != file ] || return 0
  local name=${STORE/mysql/mysql-shared} file=$BATS_FILE_TMPDIR/url
  "$STORE_PROGRAM" "$name" "$file" 3>&- >/dev/null 2>"$file.err" &
  until [ -s "$file" ]; do
    kill -0 $! 2>/dev/null || {
      ! grep -q '^SKIPPED' "$file.err" || skip "no server of $STORE is installed"
      cat "$file.err" >&2
      return 1
    }
    sleep 0.02
  done
}

teardown_file() { rm -f "$BATS_FILE_TMPDIR/url"; }

# A backend that was never used: its own directory or prefix. $SHORT is the shortest ttl that `run`
# accepts without ?short_ttl=yes.
setup() {
  common_setup
  dir=$BATS_TEST_TMPDIR
  export MARK_OF_TEST=$dir SHORT=2s
  cd "$dir" || return
  local url
  [ "$STORE" = file ] || url=$(cat "$BATS_FILE_TMPDIR/url")
  case $STORE in
    redis | redlock) export DLOCK_BACKEND="$url/0?restart_grace=0&prefix=t$BATS_TEST_NUMBER:" ;;
    zookeeper) export DLOCK_BACKEND="$url/t$BATS_TEST_NUMBER" SHORT=4s ;;
    etcd) export DLOCK_BACKEND="$url/t$BATS_TEST_NUMBER" ;;
    mysql | postgresql) export DLOCK_BACKEND="$url?prefix=t$BATS_TEST_NUMBER:" ;;
  esac
}

# Processes that a test left, found by their environment.
teardown() {
  local environ pid
  for environ in /proc/[0-9]*/environ; do
    pid=${environ%/environ} pid=${pid#/proc/}
    [ "$pid" = $$ ] || [ "$pid" = "$BASHPID" ] && continue
    if grep -qzFx "MARK_OF_TEST=$BATS_TEST_TMPDIR" "$environ" 2>/dev/null; then
      kill -9 "$pid" 2>/dev/null || :
    fi
  done
}

needs_starts() { # skips where the recipe cannot note starts
  "$DLOCK" run --explain --key k --once-per 1h -- true >/dev/null 2>&1 ||
    skip 'this recipe has no --once-per'
}
on_file() { [ "$STORE" = file ]; }

# milliseconds of CLOCK_BOOTTIME
now_ms() { awk '{print int($1 * 1000)}' /proc/uptime; }
