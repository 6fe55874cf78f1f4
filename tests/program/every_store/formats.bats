#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Two versions of dlock share a store: a record of a layout that this one does not know is refused
# with a message, and left alone.
load stores

# Makes the record of a key what a later version might write. Debian's Python sees python3-kazoo.
newer() {
  case $STORE in
    file) # both slots of the file
      /usr/bin/python3 - "$1" "$dir"/locks <<'PY'
import pathlib, sys
for state in pathlib.Path(sys.argv[2], sys.argv[1]).iterdir():
    if state.is_file():
        text = state.read_bytes()
        state.write_bytes(text.replace(b"dlock1 ", b"dlock3 "))
PY
      ;;
    redis) at_masters redis HSET "t$BATS_TEST_NUMBER:{$1}:fence" version 2 ;;
    redlock) at_masters redlock EVAL \
      "return redis.call('SET', KEYS[1], 'v2|' .. redis.call('GET', KEYS[1]))" 1 \
      "dlock:redlock:t$BATS_TEST_NUMBER:$1" ;;
    zookeeper)
      /usr/bin/python3 - "$DLOCK_BACKEND" "$1" <<'PY'
import sys, urllib.parse
from kazoo.client import KazooClient
url = urllib.parse.urlsplit(sys.argv[1])
zk = KazooClient(hosts=url.netloc)
zk.start()
directory = url.path + "/dlock/" + sys.argv[2]
for node in zk.get_children(directory):
    data = zk.get(directory + "/" + node)[0]
    assert data.startswith(b"dlock1 "), data
    zk.set(directory + "/" + node, b"dlock2" + data[6:])
zk.stop()
PY
      ;;
    etcd) # as it is, under the same lease
      local key value
      key=$(at_etcd get --prefix --keys-only "/t$BATS_TEST_NUMBER/dlock/lock/$1/" | head -n 1)
      value=$(at_etcd get --print-value-only "$key")
      assert_regex "$value" '^dlock1 '
      at_etcd put --ignore-lease "$key" "dlock2${value#dlock1}"
      ;;
    mysql | postgresql)
      statement "UPDATE dlock_lock SET layout = 2 WHERE name = 't$BATS_TEST_NUMBER:$1'"
      ;;
  esac
}

at_etcd() { # COMMAND...
  local host=${DLOCK_BACKEND#etcd://}
  ETCDCTL_API=3 etcdctl --endpoints "${host%%/*}" "$@"
}

at_masters() { # SCHEME COMMAND...: redis-cli at each server of the URL
  local hosts host scheme=$1
  shift
  hosts=${DLOCK_BACKEND#"$scheme"://}
  for host in $(tr , ' ' <<<"${hosts%%/*}"); do
    redis-cli -h "${host%:*}" -p "${host#*:}" "$@"
  done >/dev/null
}

statement() { # in the database of the URL
  if [ "$STORE" = postgresql ]; then
    psql -Xq "${DLOCK_BACKEND%%\?*}" -c "$1"
    return
  fi
  local server=${DLOCK_BACKEND#mysql://root@127.0.0.1:}
  local database=${server#*/}
  mariadb --no-defaults -uroot -h127.0.0.1 -P"${server%%/*}" "${database%%\?*}" -e "$1"
}

words='has layout 2, and this dlock knows layout 1'
if [ "$STORE" = file ]; then words='has layout 3, and this dlock knows layouts 1 and 2'; fi

@test "a newer record of a held lock: every operation is refused, and nothing is changed" {
  [ "$STORE" != zookeeper ] || /usr/bin/python3 -c 'import kazoo' 2>/dev/null ||
    skip 'no kazoo is installed'
  handle=$("$DLOCK" acquire --key k --ttl 1h)
  newer k
  refused 64 "$words" run -n --key k -- touch ran
  refused 64 "$words" run -w 1h --key k -- touch ran
  refused 64 "$words" acquire -w 1h --key k
  refused 64 "$words" inspect k
  refused 64 "$words" check --key k --token 1
  refused 64 "$words" release --key k --force --yes
  assert [ ! -e ran ]
  refused 64 "$words" run -n --key k -- touch ran
  [ -n "$handle" ]
}

# printed KEY BEGIN: the command that dlock-backends(7) prints, for a key of this test
printed() {
  local found
  found=$(sed -n "s/^\.Ql \($2.*'\).*/\1/p" "$BATS_TEST_DIRNAME/../../../man/dlock-backends.7" |
    sed -e "s/dlock:redlock:KEY/dlock:redlock:t$BATS_TEST_NUMBER:$1/" \
      -e "s/dlock:{KEY}/t$BATS_TEST_NUMBER:{$1}/; s/dlock:KEY/t$BATS_TEST_NUMBER:$1/")
  [ "$(grep -c . <<<"$found")" = 1 ] ||
    fail "dlock-backends(7) should have one command that begins with $2"
  echo "$found"
}
remove_record() {
  case $STORE in
    file) rm -r "$dir/locks/$1" ;;
    redis) eval "at_masters redis $(printed "$1" "DEL 'dlock:{")" ;;
    redlock) eval "at_masters redlock $(printed "$1" "DEL 'dlock:redlock:")" ;;
    mysql | postgresql) statement "$(printed "$1" 'DELETE FROM dlock_lock ')" ;;
  esac
}

@test "a newer record of a free lock is refused, until it is removed; tokens rise on" {
  case $STORE in zookeeper | etcd) skip 'there is no record that says that a lock is free' ;; esac
  before=$("$DLOCK" run --key k -- printenv DLOCK_TOKEN)
  newer k
  refused 64 "$words" run -n --key k -- touch ran
  refused 64 "$words" run -w 1h --key k -- touch ran
  refused 64 "$words" inspect k
  assert [ ! -e ran ]
  remove_record k
  after=$("$DLOCK" run --key k -- printenv DLOCK_TOKEN)
  assert [ "$after" -gt "$before" ]
}

@test "other keys are not affected" {
  [ "$STORE" != zookeeper ] || /usr/bin/python3 -c 'import kazoo' 2>/dev/null ||
    skip 'no kazoo is installed'
  "$DLOCK" acquire --key k --ttl 1h
  newer k
  "$DLOCK" run -n --key other -- touch ran
  assert [ -e ran ]
}

@test "the record beside a lock that other programs know" {
  [ "$STORE" = redis ] || skip 'other stores have no such record'
  DLOCK_BACKEND="$DLOCK_BACKEND&recipe=set"
  "$DLOCK" run --key k -- true
  at_masters redis EVAL "return redis.call('SET', KEYS[1], 'v2|' .. redis.call('GET', KEYS[1]))" 1 \
    "dlock:fence:{t$BATS_TEST_NUMBER:k}t$BATS_TEST_NUMBER:k"
  refused 64 "$words" run -n --key k -- touch ran
  refused 64 "$words" inspect k
  assert [ ! -e ran ]
}
