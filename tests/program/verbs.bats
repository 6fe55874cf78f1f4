#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# acquire, renew, release and check on `file`.
load common

@test "acquire, check, renew, release in sequence" {
  run --separate-stderr -0 "$DLOCK" acquire --key k
  assert_regex "$output" '^h1:file\.lease:[0-9a-f]{32}$'
  assert_equal "$stderr" ''
  h=$output
  is_held k
  run -0 "$DLOCK" check --key k --handle "$h"
  assert_output ''
  run -0 "$DLOCK" renew --key k --handle "$h" --ttl 1m
  assert_output ''
  run -0 "$DLOCK" release --key k --handle "$h"
  assert_output ''
  is_free k
  run -1 "$DLOCK" check --key k --handle "$h"
  assert_output ''
}

@test "busy is 75 or the status of -E, one line that names the holder, or none with -q" {
  "$DLOCK" acquire --key k --reason 'INC-812 ana' >/dev/null
  refused 75 "$(hostname)" acquire --key k -n
  assert_regex "$stderr" 'INC-812 ana'
  refused 75 'k' acquire --key k -w 0
  refused 3 'k' acquire --key k -n -E 3
  DLOCK_CONFLICT_EXIT_CODE=4 refused 4 'k' acquire --key k -n
  DLOCK_NONBLOCK=1 refused 75 'k' acquire --key k
  run -75 "$DLOCK" acquire --key k -nq
  assert_output ''
  DLOCK_QUIET=1 run -75 "$DLOCK" acquire --key k -n
  assert_output ''
}

@test "--shared beside --limit on one key: the line says why it is busy" {
  "$DLOCK" acquire --key s -s >/dev/null
  "$DLOCK" acquire --key s -n --limit 2 >/dev/null
  "$DLOCK" acquire --key s -s >/dev/null
  refused 75 '(a --shared lock, which counts as one of --limit 2)' acquire --key s -n --limit 2
  run -75 "$DLOCK" acquire --key s -n
  refute_output --partial '--limit'
}

@test "renew sets the rest of the lease, longer or shorter" {
  h=$("$DLOCK" acquire --key k --ttl 30s)
  "$DLOCK" renew --key k --handle "$h" --ttl 1h
  inspected True 'j["holders"][0]["lease_remaining_ms"] > 3500000' k
  "$DLOCK" renew --key k --handle "$h" --ttl 5s
  inspected True '0 < j["holders"][0]["lease_remaining_ms"] <= 5000' k
}

@test "the handle of another holder has no effect" {
  h=$("$DLOCK" acquire --key k)
  other=$("$DLOCK" acquire --key other)
  refused 75 'k is not held by this handle' release --key k --handle "$other"
  refused 75 'k is not held by this handle' renew --key k --handle "$other"
  run -0 "$DLOCK" release --key k --handle "$other" --if-held
  run -1 "$DLOCK" check --key k --handle "$other"
  run -0 "$DLOCK" check --key k --handle "$h"
}

@test "release twice: not held, a success with --if-held, silent with -q" {
  h=$("$DLOCK" acquire --key k)
  "$DLOCK" release --key k --handle "$h"
  refused 75 'k is not held by this handle' release --key k --handle "$h"
  run -75 "$DLOCK" release -q --key k --handle "$h"
  assert_output ''
  for key in k never; do
    run -0 "$DLOCK" release --key $key --handle "$h" --if-held
    assert_output ''
  done
}

@test "a handle from standard input, a file, a variable" {
  h=$("$DLOCK" acquire --key k)
  other=h1:file.lease:00000000000000000000000000000000
  run -0 "$DLOCK" check --key k --handle - <<<"$h"
  echo "$h" >handle
  run -0 "$DLOCK" check --key k --handle @handle
  printf %s "$h" >handle # without a newline
  run -0 "$DLOCK" renew --key k --handle "@$PWD/handle"
  DLOCK_HANDLE=$h run -0 "$DLOCK" check --key k
  DLOCK_HANDLE=$h run -0 "$DLOCK" renew --key k
  DLOCK_HANDLE=$other run -75 "$DLOCK" release --key k
  # The option has precedence; and one line is enough, where the pipe does not end.
  mkfifo pipe
  exec 7<>pipe # stays open for writing
  echo "$h" >&7
  DLOCK_HANDLE=$other run -0 timeout 20 "$DLOCK" release --key k --handle - <pipe
  exec 7>&-
  is_free k
}

@test "release --force shows the holder and asks for confirmation" {
  "$DLOCK" acquire --key k --reason 'half way' >/dev/null
  run --separate-stderr -64 "$DLOCK" release --key k --force
  assert_line --partial "holder   $(hostname)"
  assert_line --partial 'half way'
  assert_regex "$stderr" '^dlock: .*--token [0-9]+ .*--yes'
  is_held k
  # a view for people is no JSON
  run --separate-stderr -64 "$DLOCK" release --key k --force --json
  assert_output ''
  assert_regex "$stderr" '^dlock: .*--force with JSON output needs --token N or --yes$'
  is_held k
  run -64 "$DLOCK" release --key free --force
  assert_output --partial 'free is not held'
}

@test "release --force at a terminal removes exactly the holders that were shown and confirmed" {
  "$DLOCK" acquire --key k -s >/dev/null
  "$DLOCK" acquire --key k -s >/dev/null
  token=$(json 'j["holders"][1]["token"]' <<<"$("$DLOCK" inspect -J k)")
  "$PTY_DRIVE" "$DLOCK" release --key k --force <<STEPS
    expect remove the holder $(hostname)
    type n\n
    expect with token $token? [y/N]
    type y\n
    expect removed; its job on
    end exit 0
STEPS
  run -0 json '[h["token"] for h in j["holders"]]' <<<"$("$DLOCK" inspect -J k)"
  refute_output --partial "$token"
  is_held k
  "$PTY_DRIVE" "$DLOCK" release --key k --force <<STEPS
    expect [y/N]
    type \n
    end exit 75
STEPS
  is_held k
  # with a token or --yes it never asks
  "$PTY_DRIVE" "$DLOCK" release --key k --force --yes <<STEPS
    end exit 0
STEPS
  is_free k
}

@test "release --revoke --wait: until the holder is gone, or 75" {
  hold_by_stubborn_job k -k 1m
  refused 75 'was asked to stop, and still holds k after 200ms' \
    release --key k --revoke --wait 200ms
  end_of $pid
  DLOCK_WAIT=x run "$DLOCK" release --key k --force --yes -q
  eventually is_free k
  hold_by_stubborn_job k -k 300ms
  run -0 timeout 30 "$DLOCK" release --key k --revoke --wait 20s
  assert_output ''
  is_free k
}

@test "release --revoke --wait: a record that was lost is no end of a job" {
  hold_by_stubborn_job k -k 1m
  "$DLOCK" release --key k --revoke --wait 8s 2>said 3>&- &
  waits=$!
  was_asked() { "$DLOCK" inspect k | grep -q 'was asked to stop'; }
  eventually was_asked
  rm -r locks/k*
  wait $waits && status=0 || status=$?
  assert_equal "$status" 69
  local forgotten='k: the store has forgotten the grant with token [0-9]*'
  grep "$forgotten: whether its job has ended is unknown" said
  end_of $pid
}

@test "release --force --token compares, --yes does not; old grants stay stale" {
  h=$("$DLOCK" acquire --key k)
  token=$(json 'j["token"]' <<<"$("$DLOCK" inspect -J k)")
  refused 75 "k is not held with token $((token + 1))" \
    release --key k --force --token $((token + 1))
  run -0 "$DLOCK" release --key k --force --token $((token + 1)) --if-held
  is_held k
  run -0 "$DLOCK" release --key k --force --token "$token"
  local now="its job on $(hostname) may run up to [0-9]+s more; the next holder may start now"
  assert_output --regexp "^dlock: k: removed; $now\$"
  is_free k
  run -1 "$DLOCK" check --key k --handle "$h"
  run -1 "$DLOCK" check --key k --token "$token"
  refused 75 'not held' release --key k --handle "$h"
  "$DLOCK" acquire --key k -s >/dev/null
  "$DLOCK" acquire --key k -s >/dev/null
  run -0 "$DLOCK" release --key k --force --yes
  is_free k
  refused 75 'k is not held' release --key k --force --yes
}

@test "check accepts tokens and sequencers" {
  "$DLOCK" acquire --key 'a key/with:%signs' --output json >grant
  token=$(json 'j["token"]' <grant)
  sequencer=$(json 'j["sequencer"]' <grant)
  run -0 "$DLOCK" check "$sequencer"
  run -0 "$DLOCK" check --key 'a key/with:%signs' --token "$token"
  run -1 "$DLOCK" check --key 'a key/with:%signs' --token $((token - 1))
  run -1 "$DLOCK" check --key never --token "$token"
  run -1 "$DLOCK" check "${sequencer%:*}:1"
  assert_output ''
  run -1 "$DLOCK" check -v "${sequencer%:*}:1"
  assert_output --partial 'stale'
  "$DLOCK" release --key 'a key/with:%signs' --handle "$(json 'j["handle"]' <grant)"
  run -1 "$DLOCK" check "$sequencer"
}

@test "--output json has these names and no others" {
  run -0 "$DLOCK" acquire --key k --ttl 90s --output json
  assert_equal "${#lines[@]}" 1
  local grant=$output
  json_is 'key keys handle token sequencer scheme recipe mode slot ttl_ms' '" ".join(j)' <<<"$grant"
  json_is "('k', ['k'], 'file', 'lease', 'exclusive', None, 90000)" \
    'j["key"], j["keys"], j["scheme"], j["recipe"], j["mode"], j["slot"], j["ttl_ms"]' <<<"$grant"
}

@test "--output env is safe for eval, whatever the key" {
  nasty=$'it\'s $(touch gone) `x` "q" \\ é'
  DLOCK_OUTPUT='env' run -0 "$DLOCK" acquire --key "$nasty" --ttl 90s
  for line in "${lines[@]}"; do assert_regex "$line" "^export DLOCK_[A-Z_]+='"; done
  eval "$output"
  [ ! -e gone ]
  assert_equal "$DLOCK_KEY" "$nasty"
  assert_equal "$DLOCK_TTL_MS" 90000
  run -0 "$DLOCK" check "$DLOCK_SEQUENCER"
  run -0 "$DLOCK" check --key "$nasty" --token "$DLOCK_TOKEN"
  run -0 "$DLOCK" renew --key "$nasty"   # by DLOCK_HANDLE
  run -0 "$DLOCK" release --key "$nasty"
  run -1 "$DLOCK" check "$DLOCK_SEQUENCER"
}

@test "a handle that nobody reads leaves no lock behind" {
  run -125 python3 - <<'NO_READER'
import os, subprocess, sys
r, w = os.pipe()
os.close(r)
sys.exit(subprocess.run([os.environ["DLOCK"], "acquire", "--key", "k"], stdout=w).returncode)
NO_READER
  assert_output --partial 'Broken pipe'
  is_free k
}

@test "--hold holds until standard input ends" {
  coproc HOLDER { exec timeout 60 "$DLOCK" acquire --key k --hold --reason lunch 2>&1; }
  pid=$HOLDER_PID
  read -r -t 20 -u "${HOLDER[0]}" h
  assert_regex "$h" '^h1:file\.lease:[0-9a-f]{32}$'
  is_held k
  run -0 "$DLOCK" check --key k --handle "$h"
  eval "exec ${HOLDER[1]}>&-"
  wait "$pid"
  is_free k
}

@test "--hold dies of a signal and frees the lock" {
  for signal in TERM INT HUP; do
    hold_by_input k
    is_held k
    end_of $pid "$signal"
    assert_equal "$status" $((128 + $(kill -l "$signal")))
    is_free k
  done
}

@test "--hold exits 123 when the lock is lost" {
  hold_by_input k
  "$DLOCK" release --key k --force --yes
  wait "$pid" && status=0 || status=$?
  assert_equal "$status" 123
  is_free k
}

@test "the trace has a line before and after each request, and no secret" {
  h=$("$DLOCK" acquire --key k --trace trace)
  "$DLOCK" renew --key k --handle "$h" --trace trace
  "$DLOCK" release --key k --handle "$h" --trace trace
  run -75 "$DLOCK" release --key k --handle "$h" --trace trace
  run -0 json '[(l["ev"], l["f"]) for l in j]' <<<"[$(paste -sd, trace)]"
  local renewed="('invoke', 'renew'), ('ok', 'renew')"
  local released="('invoke', 'release'), ('ok', 'release')"
  assert_output --partial "$renewed, $released, ('invoke', 'release'), ('fail', 'release')]"
  run -1 grep -F "${h##*:}" trace
  refused 73 '--trace ' release --key k --handle "$h" --trace no/such
}

@test "an unreachable store is 69, one that refuses is 77" {
  [ -x "$DLOCK_FAKE" ] || skip 'dlock_fake is not built'
  DLOCK=$DLOCK_FAKE
  h=h1:fake.lease:00000000000000000000000000000000
  while read -r fault status command; do
    # shellcheck disable=SC2086
    DLOCK_BACKEND="fake:?fail_open=$fault" refused $status '' $command --key k
  done <<X
unavailable 69 check --token 3
unavailable 69 release --handle $h
unavailable 69 release --handle $h --if-held
unavailable 69 release --force --yes
unavailable 69 renew --handle $h
unavailable 69 acquire -n
denied 77 check --token 3
denied 77 acquire
cannot_create 73 acquire
X
}

# Where the lock ends with a descriptor only its keeper can act for it, over a socket in its network
# namespace.
kept_by_flock() {
  mkdir -m 700 locks
  export DLOCK_BACKEND="file:$BATS_TEST_TMPDIR/locks?recipe=flock"
  handle=$("$DLOCK" acquire --keep --key k --watch-pid $$)
  flock -n locks/k true && fail 'it is not held'
  keeper=${handle##*.}
}

@test "a keeper's lock: check, renew, release, and not held when it is dead" {
  kept_by_flock
  for verb in check renew release; do run -0 "$DLOCK" "$verb" --key k --handle "$handle"; done
  flock -w 20 locks/k true
  run -1 "$DLOCK" check --key k --handle "$handle"
  refused 75 'not held by this handle' renew --key k --handle "$handle"
  refused 75 'not held by this handle' release --key k --handle "$handle"
}

@test "a keeper in another namespace is unknown, never not held; a dead one is known to be dead" {
  unshare -n true 2>/dev/null || skip 'no other network namespace can be made here'
  kept_by_flock
  for verb in check renew release; do
    run -69 unshare -n "$DLOCK" "$verb" --key k --handle "$handle"
    assert_output --regexp \
      "^dlock: the keeper of this lock, process $keeper, cannot be reached .* may be alive\$"
  done
  run -69 unshare -n "$DLOCK" release --if-held --key k --handle "$handle"
  run -0 "$DLOCK" check --key k --handle "$handle"
  kill -9 "$keeper"
  flock -w 20 locks/k true
  run -1 "$DLOCK" check --key k --handle "$handle"
  eventually is_dead_for unshare -n
  # Another pid namespace, or another boot or host: its state cannot be known here.
  run -69 unshare -n -p -f "$DLOCK" check --key k --handle "$handle"
  elsewhere=$(sed 's/\(keeper\.[^.]*\.\)[^.]*/\10123456789abcdef/' <<<"$handle")
  run -69 "$DLOCK" check --key k --handle "$elsewhere"
  run -69 "$DLOCK" check --key k --handle "${handle%%.[0-9a-f][0-9a-f]*}.00"
}
is_dead_for() { "$@" "$DLOCK" check --key k --handle "$handle" || [ $? -eq 1 ]; }

@test "a keeper that is stopped is unknown, in a bounded time" {
  kept_by_flock
  kill -STOP "$keeper"
  refused 69 'the keeper did not answer' release --key k --handle "$handle"
  kill -CONT "$keeper"
}

@test "run --handle needs a lease that outlives the process that took it" {
  kept_by_flock
  refused 64 'no other can run a command under it' run --key k --handle "$handle" -- touch ran
  [ ! -e ran ]
  run -0 "$DLOCK" release --key k --handle "$handle"
}

@test "run --handle refuses a lock that ends with another process" {
  hold_by_input k
  refused 64 'ends with it' run --handle "$handle" --key k -- touch ran
  [ ! -e ran ]
  end_of $pid
}
