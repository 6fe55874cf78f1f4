#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# For scripts: acquire --keep, run --handle, several keys, nested runs, release --revoke.
load stores

# A script in its own session, so that it leads its process group, and with no signal ignored,
# however the tests were started.
script() { setsid -w env --default-signal bash -c "$1"; }

@test "--keep: the handle at once, through a pipe; release, renew, check" {
  h=$(timeout 20 "$DLOCK" acquire --keep --key k --watch-pid $$)
  is_held k
  run -0 "$DLOCK" check --key k --handle "$h"
  run -0 "$DLOCK" renew --key k --handle "$h"
  run -0 "$DLOCK" release --key k --handle "$h"
  is_free k
}

@test "a handle is valid for a lock that had to wait" {
  first=$("$DLOCK" acquire --key k --key z)
  "$DLOCK" acquire --key k --key z >handle &
  waiter=$!
  "$DLOCK" acquire --keep --key k --watch-pid $$ >kept.handle &
  keeper=$!
  sleep 0.3
  "$DLOCK" release --key k --key z --handle "$first"
  for _ in 1 2; do # in either order
    eventually test -s handle -o -s kept.handle
    if [ -s handle ]; then
      wait $waiter
      run -0 "$DLOCK" check --key k --key z --handle @handle
      run -0 "$DLOCK" release --key k --key z --handle @handle
      rm handle
    else
      wait $keeper
      run -0 "$DLOCK" renew --key k --handle @kept.handle
      run -0 "$DLOCK" release --key k --handle @kept.handle
      rm kept.handle
    fi
  done
  is_free k
  is_free z
}

@test "--keep: a script killed by any signal leaves the key free, long before the ttl" {
  for signal in TERM KILL INT HUP; do
    run script '"$DLOCK" acquire --keep --key k --ttl 1h >handle; kill -'$signal' $$; sleep 60'
    timeout 20 "$DLOCK" run --key k -- true || fail "not free after $signal"
  done
}

@test "--keep: the lease is renewed beyond its ttl while the caller lives" {
  run -0 script 'h=$("$DLOCK" acquire --keep --key k --ttl $SHORT) && sleep $((${SHORT%s} + 1)) &&
    "$DLOCK" check --key k --handle "$h"'
}

@test "--keep: --max-hold releases the lock" {
  timeout 20 "$DLOCK" acquire --keep --key k --watch-pid $$ --max-hold 100ms --ttl 1h >handle
  timeout 20 "$DLOCK" run --key k -- true
}

@test "--keep: busy and errors are reported in the foreground" {
  "$DLOCK" acquire --key k >/dev/null
  refused 75 'k is held by' acquire --keep --key k -n
  refused 64 'no process' acquire --keep --key z --watch-pid 4194303
  run -125 bash -c '"$DLOCK" acquire --keep --key z --watch-pid $$ >/dev/full'
  is_free z
}

@test "run --handle: under the lease of acquire, which it renews and does not release" {
  h=$("$DLOCK" acquire --key k --ttl 1h)
  run -3 "$DLOCK" run --handle "$h" --key k -- sh -c 'echo "$DLOCK_KEY $DLOCK_HANDLE"; exit 3'
  assert_output "k $h"
  is_held k
  run -0 "$DLOCK" run --handle - --key k -- true <<<"$h"
  "$DLOCK" release --key k --handle "$h"
  refused 75 'not held by this handle' run --handle "$h" --key k -- touch ran
  [ ! -e ran ]
  DLOCK_HANDLE=$h run -0 "$DLOCK" run --key k -n -- true # an ordinary contender
}

@test "run --handle: a lock that was released meanwhile is reported" {
  [ "$STORE" != zookeeper ] || skip 'one process at a time can use a handle'
  h=$("$DLOCK" acquire --key k --ttl 1h)
  run -0 --separate-stderr "$DLOCK" run --handle "$h" --key k -- \
    "$DLOCK" release --key k --handle "$h"
  assert_regex "$stderr" 'not held any more'
}

@test "several keys: all or none, whatever the order; the variables are those of the first" {
  run -0 "$DLOCK" run --key b --key a --key c -- bash -c '
    for k in a b c; do "$DLOCK" inspect --check $k; echo $?; done
    echo $DLOCK_KEY
    echo "$DLOCK_GRANTS" |
      python3 -c "import json, sys; print([g[\"key\"] for g in json.load(sys.stdin)])"'
  assert_output "$(printf '75\n75\n75\nb\n%s' "['b', 'a', 'c']")"
  for k in a b c; do is_free $k; done
  h=$("$DLOCK" acquire --key c)
  refused 75 'c' run --key a --key c -n -- true
  is_free a
  "$DLOCK" release --key c --handle "$h"
}

@test "several keys in opposite orders do not wait for each other" {
  for _ in {1..10}; do "$DLOCK" run --key a --key b -- true & pids+=($!); done
  for _ in {1..10}; do "$DLOCK" run --key b --key a -- true & pids+=($!); done
  eventually is_free a
  for pid in "${pids[@]}"; do wait "$pid"; done
}

@test "several keys: kill -9 of dlock and its guard frees all of them" {
  on_file || skip 'a lease ends by its ttl'
  "$DLOCK" run --key a --key b -- sleep 100 &
  eventually is_held b
  kill -9 $! "$(cat /proc/$!/task/$!/children)"
  timeout 20 "$DLOCK" run --key b --key a -- true
}

@test "acquire several keys: one handle for all" {
  h=$("$DLOCK" acquire --key a --key b)
  run -0 "$DLOCK" check --key a --key b --handle "$h"
  run -0 "$DLOCK" release --key a --key b --handle "$h"
  is_free a
  is_free b
  # One after the other, too.
  h=$("$DLOCK" acquire --key a --key b)
  run -0 "$DLOCK" release --key a --handle "$h"
  is_free a
  is_held b
  run -0 "$DLOCK" renew --key b --handle "$h"
  run -0 "$DLOCK" release --key b --handle "$h"
  is_free b
}

@test "nested: the same key is re-entrant, with the same token, and stays held" {
  run -0 timeout 20 "$DLOCK" run --key k -- bash -c 'echo $DLOCK_TOKEN
    "$DLOCK" run --key k -- sh -c "echo \$DLOCK_TOKEN"
    "$DLOCK" inspect --check k
    echo $?'
  assert_equal "${lines[0]}" "${lines[1]}"
  assert_equal "${lines[2]}" 75
  run -0 timeout 20 "$DLOCK" run --key k -- "$DLOCK" run --key other -- \
    "$DLOCK" run -n --key k -- echo deep
  assert_output deep
}

@test "nested: shared to exclusive, or another limit, would wait for itself" {
  "$DLOCK" run --explain -s --key k -- true >/dev/null 2>&1 || skip 'this recipe has no --shared'
  run -64 timeout 20 "$DLOCK" run -s --key k -- "$DLOCK" run --key k -- true
  assert_output --partial 'shared'
  run -0 timeout 20 "$DLOCK" run --key k -- "$DLOCK" run -s --key k -- true
  run -0 timeout 20 "$DLOCK" run --limit 2 --key p -- "$DLOCK" run --limit 2 --key p -- true
  run -64 timeout 20 "$DLOCK" run --limit 2 --key p -- "$DLOCK" run --limit 3 --key p -- true
  run -75 "$DLOCK" run --key k -- "$DLOCK" run --no-reentrant -n --key k -- true
}

@test "release --revoke: the job is asked to end, and the lock is released" {
  "$DLOCK" run --explain --key k -- true >/dev/null
  run "$DLOCK" release --key free --revoke
  [ "$status" -ne 64 ] || skip 'this recipe has no --revoke'
  assert_equal "$status" 75
  local holder pid
  for holder in 'run -- sleep 100' 'acquire --hold'; do
    "$DLOCK" ${holder%% *} -q --key k --ttl "$SHORT" ${holder#* } >out 2>said < <(exec sleep 100) &
    pid=$!
    eventually is_held k
    run -0 "$DLOCK" release --key k --revoke
    wait "$pid" && fail 'it did not end' || assert_equal "$holder $?" "$holder 122"
    grep -q 'k: .*asked to stop' said
    is_free k
  done
}

@test "--publish-command: shown only when asked for" {
  h=$("$DLOCK" run --publish-command --key k -- bash -c '"$DLOCK" inspect -J k' visible)
  assert_regex "$(json 'j["holders"][0]["command"]' <<<"$h")" visible
  h=$("$DLOCK" run --key k -- bash -c '"$DLOCK" inspect -J k' hidden)
  assert_equal "$(json 'j["holders"][0]["command"]' <<<"$h")" None
}

@test "bench: a note per reason, a remark on file: beside a server, a password for each backend" {
  [ "$STORE" = redis ] || skip 'once is enough'
  run -0 timeout 50 "$DLOCK" bench -b "$DLOCK_BACKEND" -b "file:$dir/locks" --recipe fair \
    --recipe set --recipe lease -d 200ms -c 2 --scenario handoff
  local near='the server is on this host; over a network each command takes a round trip more'
  assert_line "note  redis fair, redis set: $near"
  assert_line --regexp \
    '^file lease: locks of this machine alone, which are not written to disk at each grant'

  # A user with a password of its own beside the one that needs none.
  local port=${DLOCK_BACKEND#redis://127.0.0.1:}
  exec 9<>"/dev/tcp/127.0.0.1/${port%%/*}"
  printf 'ACL SETUSER bench on >s3cret allkeys allchannels allcommands\r\n' >&9
  read -r -t 20 answer <&9
  exec 9>&-
  assert_equal "$answer" $'+OK\r'
  printf 's3cret\n' >right
  printf 'other\n' >wrong
  chmod 600 right wrong
  local as_bench=${DLOCK_BACKEND/redis:\/\//redis:\/\/bench@}
  run -0 timeout 50 "$DLOCK" bench -b "$as_bench&password_file=right" -b "$DLOCK_BACKEND" -d 200ms \
    -c 2
  run -77 timeout 50 "$DLOCK" bench -b "$DLOCK_BACKEND" -b "$as_bench&password_file=wrong" \
    -d 200ms -c 2
  run -77 "$DLOCK" inspect -b "$as_bench&password_file=$PWD/wrong"
  run -0 "$DLOCK" inspect -b "$as_bench&password_file=$PWD/right" k
}
