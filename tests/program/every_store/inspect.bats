#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What inspect shows of holders, on each kind of store.
load stores

@test "an ended lease: listed by --stale, shown with its holder, and free to take" {
  case $STORE in
    redlock | zookeeper | etcd) skip 'nothing is left there of a lease that has ended' ;;
  esac
  "$DLOCK" acquire -b "$(with_item short_ttl=yes)" --key k --ttl 200ms \
    --reason 'half way' >/dev/null
  "$DLOCK" acquire --key live >/dev/null
  eventually is_free k
  listed 'k  stale  0' --stale -o KEY,STATE,HOLDERS
  listed live --held -o KEY
  run -0 "$DLOCK" inspect k
  assert_line 'state    stale, exclusive'
  assert_line --regexp "^holder +$(hostname):[0-9]+ "
  assert_line --regexp '^ +lease has ended [0-9.]+[um]?s ago; the key can be taken$'
  assert_line --regexp '^ +reason half way$'
  refute_line --regexp '^(force|revoke|kill) |shown'
  run -64 "$DLOCK" release --key k --force
  assert_output --partial 'k is not held'
  run -75 "$DLOCK" release --key k --revoke --wait 10s
  run -0 "$DLOCK" run -n --key k -- true
  listed '' --stale -o KEY
}

@test "a key that was taken and is free again is not called never taken" {
  "$DLOCK" run --key k -- true
  run -0 "$DLOCK" inspect k
  case $STORE in
    zookeeper) assert_line 'state    free (this recipe keeps no record of a free key)' ;;
    *) assert_line 'state    free' ;;
  esac
}

@test "permits: how many of how many, and limits that differ" {
  [ "$STORE" != redlock ] || skip 'this recipe has no permits'
  "$DLOCK" acquire --keep --key k --limit 3 --watch-pid $$ >/dev/null
  "$DLOCK" acquire --keep --key k --limit 3 --watch-pid $$ >/dev/null
  run -0 "$DLOCK" inspect k
  assert_line 'state    held, permit, 2 of 3 permits'
  refute_line --partial 'differ'
  assert_line --regexp "^revoke +.* --revoke --wait 1m # asks all 2 holders\$"
  inspected '[3, 3]' '[h["limit"] for h in j["holders"]]' k
  run -75 "$DLOCK" run -n --key k --limit 2 -- true
  assert_output --partial '(one of --limit 3, and here it is --limit 2: use the same everywhere)'
  "$DLOCK" run --key k --limit 2 -- true 3>&- 2>/dev/null &
  eventually waiting 1 k
  run -0 "$DLOCK" inspect k
  assert_line 'state    held, permit, 2 permits'
  local differ='the limits differ \(2 by .*, 3 by .*\): each counts all holders against its own'
  assert_line --regexp "^note +$differ; use the same everywhere\$"
  inspected 2 'j["waiters"][0]["limit"]' k
  "$DLOCK" acquire --keep --key full --limit 1 --watch-pid $$ >/dev/null
  run -75 "$DLOCK" run -n --key full --limit 1 -- true
  assert_output --partial '(one of --limit 1); not waiting'
}

@test "a shared lock beside permits is pointed out" {
  [ "$STORE" != redlock ] || skip 'this recipe has no permits'
  "$DLOCK" acquire --keep --key k --limit 3 --watch-pid $$ >/dev/null
  "$DLOCK" acquire --keep --key k --shared --watch-pid $$ >/dev/null
  run -0 "$DLOCK" inspect k
  assert_line 'note     a --shared lock beside --limit counts as one of the permits'
  assert_line --regexp '^state +held, (permit|shared), 2 of 3 permits$'
}
