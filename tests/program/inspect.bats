#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What inspect prints, for people and for programs.
load common

@test "nothing yet: an empty table, no keys" {
  run -0 "$DLOCK" inspect
  assert_line --index 0 --regexp \
    '^KEY +STATE +MODE +HOLDER +ASKED +AGE +LEASE +TOKEN +WAIT +REASON$'
  assert_line --index 1 '0 keys, 0 held, 0 waiting'
  listed ''
  inspected '([], True)' 'j["keys"], j["complete"]'
}

@test "a key that was never used is free and has no token" {
  run -0 "$DLOCK" inspect never
  assert_line --regexp '^state +free, never taken'
  assert_line --regexp '^token +-$'
  run -0 "$DLOCK" inspect --check never
  assert_output ''
  inspected "('free', 0, [], None, True)" \
    'j["state"], j["token"], j["holders"], j["mode"], j["complete"]' never
  run -0 "$DLOCK" inspect never --no-heading
  assert_output --regexp '^never +free +- +- +- +- +- +- +0 +-$'
  [ ! -e locks/never ]
}

@test "held and free keys in the table" {
  "$DLOCK" acquire --key held --ttl 1h --reason 'INC-812 ana' >/dev/null
  "$DLOCK" release --key free --handle "$("$DLOCK" acquire --key free)"
  run -0 "$DLOCK" inspect
  assert_line --regexp "^free +free +- +- +- +- +- +[0-9]+ +0 +-$"
  local holder="$(hostname):[0-9]+ \($(id -un)\)"
  local times='[0-9:]{8} +[0-9.ms]+ +[0-9msh]+'
  assert_line --regexp "^held +held +exclusive +$holder +$times +[0-9]+ +0 +INC-812 ana$"
  assert_line '2 keys, 1 held, 0 waiting'
  listed held --held -o key
  listed '' --stale -o key
}

@test "columns: chosen, added, in any case" {
  "$DLOCK" acquire --key k --limit 3 >/dev/null
  "$DLOCK" acquire --key k --limit 3 >/dev/null
  run -0 "$DLOCK" inspect -o KEY,mode,Holders,SLOT --no-heading
  assert_output --regexp '^k +permit +2 +0$'
  run -0 "$DLOCK" inspect -o +SLOT
  assert_line --index 0 --regexp 'REASON +SLOT$'
  run -0 "$DLOCK" inspect k --columns STATE
  assert_output --regexp '^STATE
held
1 key, 1 held, 0 waiting$'
  DLOCK_COLUMNS=key run -0 "$DLOCK" inspect --no-heading
  assert_output k
  # A default for tables does not replace the view of one key.
  DLOCK_COLUMNS=key run -0 "$DLOCK" inspect k
  assert_line --regexp '^state +held, permit, 2 of 3 permits$'
}

@test "the view of one key" {
  "$DLOCK" acquire --key 'a b' -s --reason one >/dev/null
  "$DLOCK" acquire --key 'a b' -s --reason two >/dev/null
  run -0 "$DLOCK" inspect 'a b'
  assert_line --regexp '^key +a b$'
  assert_line --regexp '^state +held, shared$'
  assert_line --regexp "^holder +$(hostname):[0-9]+ \($(id -un)\), token [0-9]+, id [0-9a-f]+$"
  assert_line --regexp '^ +asked 20[0-9-]+T[0-9:.]+Z, .* ago$'
  assert_line --regexp '^ +lease ends in [0-9.ms]+ without a renewal$'
  assert_line --regexp '^ +reason one$'
  assert_line --regexp '^ +reason two$'
  assert_line --regexp "^where +.*$BATS_TEST_TMPDIR/locks.*, recipe lease$"
}

@test "the view proposes to ask the holder first, then its process, then force" {
  hold_by_job k
  run -0 "$DLOCK" inspect k
  assert_line --index -3 --regexp "^revoke +dlock release -b .* --key 'k' --revoke --wait 1m\$"
  assert_line --index -2 "kill     kill $pid"
  assert_line --index -1 --regexp '^force +dlock release '
  inspected False 'j["holders"][0]["revoked"]' k
  end_of $pid TERM
  hold_by_stubborn_job k -k 1m
  "$DLOCK" release --key k --revoke
  run -0 "$DLOCK" inspect k
  assert_line --regexp '^ +was asked to stop \(release --revoke\)$'
  refute_line --regexp '^revoke '
  inspected True 'j["holders"][0]["revoked"]' k
  end_of $pid
}

@test "release --revoke, --force: a store that does not answer is not asked for more" {
  needs_backend redis
  local away='-b redis://127.0.0.1:1 --connect-timeout 200ms --op-timeout 200ms' what
  for what in '--revoke' '--revoke --wait 1s' '--force --yes' '--force --token 1'; do
    # shellcheck disable=SC2086
    refused 69 '' release $away --key k $what --trace trace
  done
  [ ! -s trace ]
}

@test "where nobody listens, neither revoke nor kill is proposed, and --revoke is 64" {
  "$DLOCK" acquire --key k >/dev/null
  run -0 "$DLOCK" inspect k
  refute_line --regexp '^(revoke|kill) '
  assert_line --regexp '^force '
  refused 64 'nobody listens for k: ' release --key k --revoke
  refused 64 'use its --handle, or --force --token ' release --key k --revoke --wait 1s
  # One of them does: both are asked.
  "$DLOCK" acquire --key s -s >/dev/null
  "$DLOCK" acquire --keep --watch-pid $$ --key s -s >/dev/null
  "$DLOCK" inspect s | grep -q '^revoke '
  run -0 "$DLOCK" release --key s --revoke
}

@test "acquire --keep: the keeper is named, by its own process id and title" {
  "$DLOCK" acquire --keep --watch-pid $$ --key kept >/dev/null
  run -0 "$DLOCK" inspect kept
  pid=$(sed -n 's/^ *kept by process \([0-9]*\) (acquire --keep)$/\1/p' <<<"$output")
  assert_equal "$(tr '\0' ' ' <"/proc/$pid/cmdline" | sed 's/[ .]*$//')" 'lock-keeper: kept'
  refute_line --partial 'has ended'
  assert_line "kill     kill $pid"
  assert_line --regexp '^revoke '
  inspected "($pid, 'keeper')" 'j["holders"][0]["pid"], j["holders"][0]["kept_by"]' kept
  kill "$pid"
  eventually is_free kept
}

@test "what remains of --min-hold is kept, not stale, and not called a dead process" {
  "$DLOCK" run --min-hold 1h --key k -- true
  run -0 "$DLOCK" inspect k
  assert_line --regexp \
    '^ +kept until 20[0-9-]+T[0-9:.]+Z, in [0-9.]+[ms][0-9.ms]*, job ended \(--min-hold\)$'
  refute_line --regexp '^(revoke|kill) |has ended'
  refused 64 'its job has ended (--min-hold); use --force' release --key k --revoke
  inspected min-hold 'j["holders"][0]["kept_by"]' k
  "$DLOCK" run --min-hold 50ms --key short -- true
  eventually is_free short
  run -0 "$DLOCK" inspect short
  assert_line 'state    free'
  listed '' --stale -o KEY
}

@test "a process of another PID namespace is not to be killed, nor called dead" {
  unshare -rpf --kill-child --mount-proc true || skip 'no PID namespaces here'
  unshare -rpf --kill-child --mount-proc "$DLOCK" run --key k -- sleep 60 3>&- &
  eventually is_held k
  run -0 "$DLOCK" inspect k
  assert_line --regexp "^holder +$(hostname):1 "
  refute_line --regexp '^kill |has ended'
  assert_line --regexp '^revoke '
  end_of $!
}

@test "what is proposed names the store as it was given, quoted, and no password" {
  "$DLOCK" acquire --key "it's" >/dev/null
  mkdir "a b"
  printf '[profile."p q"]\nop-timeout = "3s"\n' >"a b/c.toml"
  run -0 "$DLOCK" inspect "it's" --config "a b/c.toml" --profile 'p q' \
    --recipe lease
  local store="-b 'file:$PWD/locks' --config 'a b/c.toml' --profile 'p q' --recipe 'lease'"
  assert_line --regexp \
    "^force +dlock release $store --key 'it'\\\\''s' --force --token [0-9]+\$"
  command=$(sed -n 's/^force *dlock //p' <<<"$output")
  unset DLOCK_BACKEND
  eval "run -0 \"\$DLOCK\" $command"
  # Characters that are not safe to print are for the shell alone.
  odd=$(printf 'x\342\200\256y') at="file:$PWD/locks"
  "$DLOCK" acquire -b "$at" --key "$odd" >/dev/null
  command=$("$DLOCK" inspect -b "$at" "$odd" | sed -n 's/^force *dlock //p')
  [[ $command != *"$odd"* ]]
  eval "run -0 \"\$DLOCK\" $command"
  for key in "it's" "$odd"; do run -0 "$DLOCK" inspect --check -b "$at" "$key"; done
}

@test "a state that was deleted while held, or is damaged: ?, and 69 with --check" {
  hold_by_job k
  kill -STOP $pid # it would write its record again
  rm locks/k/state
  run -69 "$DLOCK" inspect --check k
  run -69 "$DLOCK" inspect k
  assert_line --regexp '^state +\?, the state file was lost; 1 process'
  run -69 "$DLOCK" inspect --no-heading -o KEY,STATE
  assert_line 'k  ?'
  inspected "('unknown', False, 'the state file was l')" \
    'j["state"], j["complete"], j["error"][:20]' k
  end_of $pid
  "$DLOCK" acquire --key d >/dev/null
  head -c 3000 /dev/zero | tr '\0' x >locks/d/state
  run -69 "$DLOCK" inspect --check d
  run -69 "$DLOCK" inspect --no-heading -o KEY,STATE
  assert_line 'd  ?'
}

@test "waiters, in the order of the queue" {
  "$DLOCK" acquire --key k --ttl 1m >/dev/null
  for n in 1 2; do
    timeout 60 "$DLOCK" acquire --key k --reason "waiter $n" >out 2>&1 3>&- &
    pids[n]=$!
    eventually waiting $n k
  done
  run -0 "$DLOCK" inspect k
  assert_line --regexp '^waiting  1 .*reason waiter 1$'
  assert_line --regexp '^         2 .*reason waiter 2$'
  inspected "['waiter 1', 'waiter 2']" '[w["reason"] for w in j["waiters"]]' k
  for n in 1 2; do end_of "${pids[n]}" TERM; done
  is_held k
}

@test "a holder bound to its process, and a lock-delay after it vanished" {
  hold_by_input k --lock-delay 60s
  run -0 "$DLOCK" inspect k
  assert_line --regexp '^ +lease lasts as long as its process$'
  inspected "[$pid, True, None]" \
    '[j["holders"][0][n] for n in ("pid", "attached", "lease_remaining_ms")]' k
  end_of $pid
  run -75 "$DLOCK" acquire --key k -n # notices the death
  run -0 "$DLOCK" inspect k
  assert_line --regexp '^state +delayed'
  assert_line --regexp 'lease vanished; lock-delay for '
  is_held k
  listed k --stale -o KEY
}

@test "a holder that was killed is stale until the key is taken" {
  hold_by_input k
  end_of $pid
  run -0 "$DLOCK" inspect k
  assert_line 'state    stale, exclusive'
  assert_line --regexp '^ +lease has ended with its process; the key can be taken$'
  listed k --stale -o KEY
  run -0 "$DLOCK" run -n --key k -- true
  run -0 "$DLOCK" inspect k
  assert_line 'state    free'
}

@test "JSON has stable names" {
  "$DLOCK" acquire --key k --reason r >/dev/null
  inspected \
    'backend complete holders key last_run last_start mode notes state token waiters' \
    '" ".join(sorted(j))' k
  inspected 'family recipe scheme where' '" ".join(sorted(j["backend"]))' k
  inspected "$(echo age_ms asked_at attached command held_ms host id kept_by \
    lease_remaining_ms limit mode pid reason revoked slot token user vanished)" \
    '" ".join(sorted(j["holders"][0]))' k
  inspected "(['backend', 'complete', 'keys'], ['k'])" 'sorted(j), [k["key"] for k in j["keys"]]'
  run -0 "$DLOCK" inspect -J
  assert_equal "${#lines[@]}" 1
}

@test "CSV is quoted, and numbers are plain" {
  "$DLOCK" acquire --key 'a,"b"' --ttl 1h --reason 'x,y' >/dev/null
  run -0 "$DLOCK" inspect --csv -o KEY,AGE,LEASE,ASKED,REASON
  assert_line --index 0 'KEY,AGE_MS,LEASE_MS,ASKED,REASON'
  assert_line --index 1 --regexp '^"a,""b""",[0-9]+,[0-9]{7},20[0-9-]+T[0-9:.]+Z,"x,y"$'
  listed 'never,free,,,,,,0,0,' --csv never
  listed ',never' --csv never -o HOLDER,KEY
}

@test "text of other programs reaches the terminal without control sequences" {
  "$DLOCK" acquire --key k --reason $'\e]0;owned\a\e[2J \xe2\x80\xae\xc2\x9b31m \xff' >/dev/null
  for form in '' -J --csv; do
    run -0 "$DLOCK" inspect k $form
    assert_output --partial '\x1b]0;owned'
    [[ $output != *[$'\e\a\x9b\xff']* ]]
    run -0 "$DLOCK" inspect $form
    [[ $output != *$'\e'* && $output != *$'\xe2\x80\xae'* ]]
  done
  run -75 "$DLOCK" acquire --key k -n
  [[ $output != *$'\e'* ]]
}

@test "an unreachable store is ?, never free, and 69" {
  [ -x "$DLOCK_FAKE" ] || skip 'dlock_fake is not built'
  DLOCK=$DLOCK_FAKE
  export DLOCK_BACKEND='fake:?fail_open=unavailable'
  run --separate-stderr -69 "$DLOCK" inspect k
  assert_line --regexp '^state +\?$'
  assert_equal "${#stderr_lines[@]}" 1
  run --separate-stderr -69 "$DLOCK" inspect k --no-heading
  assert_output --regexp '^k +\? +\?'
  run --separate-stderr -69 "$DLOCK" inspect k --csv --no-heading
  assert_output 'k,?,?,?,?,?,?,?,?,?'
  for key in k ''; do run -69 "$DLOCK" inspect -J $key; done
  inspected "('k', 'unknown', False)" 'j["key"], j["state"], j["complete"]' k
  inspected '(None, False)' 'j["keys"], j["complete"]'
  refused 69 '' inspect
  refused 69 '' inspect --check k
}

@test "--doctor calls a directory bad that all users may write to, or that is below one" {
  mkdir -m 1777 open
  mkdir -m 700 open/below
  for place in open open/below open/missing; do
    run -1 "$DLOCK" inspect --doctor -b "file:$PWD/$place"
    assert_line --regexp '^BAD +way to it +all users may write to .*/open$'
    assert_line 'not fit to keep locks: 1 bad, 0 warnings, 0 unknown'
  done
}

@test "a pattern lists the keys that match; a key of that very name comes first" {
  for key in svc-a svc-b other; do "$DLOCK" acquire --key $key >/dev/null; done
  listed $'svc-a\nsvc-b' 'svc-*' -o KEY
  inspected "['svc-b']" '[k["key"] for k in j["keys"]]' 'svc-[b]'
  run -0 "$DLOCK" inspect 'none-*'
  assert_line '0 keys, 0 held, 0 waiting'
  "$DLOCK" acquire --key 'svc-*' >/dev/null
  run -0 "$DLOCK" inspect 'svc-*'
  assert_line --regexp '^key +svc-\*$'
  run -75 "$DLOCK" inspect --check 'oth*'
  run -0 "$DLOCK" inspect --check 'none-*'
  "$DLOCK" acquire --key 'o[t]her' >/dev/null
  "$DLOCK" release --key 'o[t]her' --force --yes 2>/dev/null
  run -0 "$DLOCK" inspect --check 'o[t]her' # this key, not those that match
}

@test "--sort: by key, the longest held first, the most waiters first" {
  "$DLOCK" acquire --key b >/dev/null
  "$DLOCK" acquire --key c >/dev/null
  "$DLOCK" acquire --key a --ttl 1m >/dev/null
  "$DLOCK" release --key z --handle "$("$DLOCK" acquire --key z)"
  sorted() { "$DLOCK" inspect --no-heading -o KEY --sort "$1" | tr '\n' ' '; }
  assert_equal "$(sorted key)" 'a b c z '
  assert_equal "$(sorted age)" 'b c a z '
  timeout 60 "$DLOCK" acquire --key a >/dev/null 2>&1 3>&- &
  pid=$!
  eventually waiting 1 a
  assert_equal "$(sorted waiters)" 'a b c z '
  end_of $pid TERM
}

@test "the last start of --once-per, and when the next is possible" {
  run -0 "$DLOCK" run --key k --once-per day -- true
  run -0 "$DLOCK" inspect k
  assert_line --regexp '^state +free$'
  assert_line --regexp \
    '^ +started 20[0-9-]+T[0-9:.]+Z, [0-9.]+[um]?s ago, with --once-per, lasted [0-9.]+[um]?s$'
  assert_equal "$(grep -c started <<<"$output")" 1
  local next='hour in [0-9ms]+, day in [0-9hms]+, week in [0-9dhms]+, month in [0-9dhms]+'
  assert_line --regexp "^next +by --once-per $next, or a duration after the start\$"
  inspected 20 'j["last_start"][:2]' k
  json_is 20 'j["last_start"][:2]' <<<"$("$DLOCK" inspect k --watch=10ms -J | head -n 1)"
  echo other >locks/k/started # JSON says why it is not known
  inspected "(None, False, 'is not what this version of dlock writes')" \
    'j["last_start"], j["complete"], j["error"][-40:]' k
}

@test "a lease whose process has ended, as that of acquire" {
  "$DLOCK" acquire --key k >/dev/null
  run -0 "$DLOCK" inspect k
  assert_line --regexp '^ +the process that took it has ended, as with acquire$'
  hold_by_job j
  run -0 "$DLOCK" inspect j
  refute_line --partial 'has ended'
  end_of $pid TERM
}
