#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# dlock beside the mariadb client: GET_LOCK by hand, and a row of Quartz's QRTZ_LOCKS as Quartz
# locks it. Usage: mysql_client.sh DLOCK; the server is the one that ctest started
# ($DLOCK_TEST_MYSQL).
# shellcheck disable=SC2086  # $client is several words
set -eu

dlock=$1
shared=${DLOCK_TEST_MYSQL:-} # its URL
if ! command -v mariadb >/dev/null || [ ! -e "$shared" ]; then
  echo 'SKIPPED: no mariadb client, or no server' >&2
  [ "${CI:-}" = true ] && exit 1
  exit 77
fi
server=$(sed 's,/[^/]*$,,' "$shared")
client="mariadb --no-defaults -uroot -h127.0.0.1 -P${server##*:} -N -B"
database=interop_$$
sql() { $client "$@"; }
fail() { echo "FAILED: $*" >&2 && exit 1; }
sql -e "CREATE DATABASE $database"
work=$(mktemp -d)
# shellcheck disable=SC2317  # by the trap
finish() {
  sql -e "DROP DATABASE $database" || :
  rm -rf "$work"
}
trap finish EXIT
url=$server/$database
name="interop.$$"

# A session of the mariadb client that executes the statements written to the FIFO, until it is
# closed.
mkfifo "$work/in" "$work/out"
sql --unbuffered "$database" <"$work/in" >"$work/out" &
exec 3>"$work/in" 4<"$work/out"
by_hand() { echo "$1;" >&3 && read -r answer <&4; }

# --- GET_LOCK
by_hand "SELECT GET_LOCK('$name',0)"
[ "$answer" = 1 ] || fail 'the client did not get the lock'
status=0
"$dlock" run -q -n -b "$url" --recipe get-lock --key "$name" -- true || status=$?
[ $status = 75 ] || fail "beside GET_LOCK: $status instead of 75"
"$dlock" inspect -b "$url" --recipe get-lock "$name" | grep -q 'another program' ||
  fail 'inspect does not show the stranger'
"$dlock" run -q -w 20 -b "$url" --recipe get-lock --key "$name" -- touch "$work/ran" &
waiter=$!
waiting="SELECT COUNT(*) FROM information_schema.processlist
  WHERE STATE='User lock' AND DB='$database'"
until [ "$(sql -e "$waiting")" = 1 ]; do sleep 0.02; done
[ ! -e "$work/ran" ] || fail 'ran beside the client'
by_hand "SELECT RELEASE_LOCK('$name')"
wait $waiter || fail 'the waiter did not get the lock'
[ -e "$work/ran" ] || fail 'did not run'
answer=$("$dlock" run -q -b "$url" --recipe get-lock --key "$name" -- \
  $client -e "SELECT GET_LOCK('$name',0)")
[ "$answer" = 0 ] || fail 'the client got a lock that dlock holds'

# --- Quartz
sql "$database" -e "CREATE TABLE QRTZ_LOCKS(SCHED_NAME VARCHAR(120) NOT NULL,
    LOCK_NAME VARCHAR(40) NOT NULL, PRIMARY KEY(SCHED_NAME,LOCK_NAME)) ENGINE=InnoDB;
  INSERT INTO QRTZ_LOCKS VALUES('s','TRIGGER_ACCESS')"
quartz="$url?table=QRTZ_LOCKS&key_column=LOCK_NAME&where.SCHED_NAME=s"
as_quartz="SELECT * FROM QRTZ_LOCKS
  WHERE SCHED_NAME = 's' AND LOCK_NAME = 'TRIGGER_ACCESS' FOR UPDATE"
by_hand "START TRANSACTION; $as_quartz"
[ "$answer" = 's	TRIGGER_ACCESS' ] || fail "the transaction read '$answer'"
status=0
"$dlock" run -q -n -b "$quartz" --recipe for-update --key TRIGGER_ACCESS -- true || status=$?
[ $status = 75 ] || fail "beside the transaction: $status instead of 75"
"$dlock" run -q -n -b "$quartz" --recipe for-update --key STATE_ACCESS -- true ||
  fail 'another row is in the way, or is not made'
by_hand 'COMMIT; SELECT 1'
status=0
"$dlock" run -q -b "$quartz" --recipe for-update --key TRIGGER_ACCESS -- \
  $client "$database" \
  -e "SET innodb_lock_wait_timeout=1; $as_quartz" 2>"$work/error" || status=$?
{ [ $status != 0 ] && grep -q 1205 "$work/error"; } ||
  fail 'the transaction got a row that dlock holds'
by_hand "$as_quartz"
[ "$answer" = 's	TRIGGER_ACCESS' ] || fail 'the row is not free after dlock'

# --- method_lock, as older scripts do it
row="INSERT INTO method_lock(method_name,method_desc) VALUES('job','by hand')"
sql "$database" -e "$row" 2>/dev/null || {
  "$dlock" run -q -b "$url" --recipe insert --key first -- true
  sql "$database" -e "$row"
}
status=0
"$dlock" run -q -n -b "$url" --recipe insert --key job -- true || status=$?
[ $status = 75 ] || fail "beside the row: $status instead of 75"
sql "$database" -e "DELETE FROM method_lock WHERE method_name='job'"
status=0
"$dlock" run -q -b "$url" --recipe insert --key job -- \
  $client "$database" -e "$row" 2>/dev/null || status=$?
[ $status != 0 ] || fail 'a second row beside that of dlock'
exec 3>&- 4<&-
wait
