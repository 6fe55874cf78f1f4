#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Invalid command lines and variables: one clear line and the right status, and no lock is taken.
load common

setup() { common_setup; }
teardown() { [ ! -e "$BATS_TEST_TMPDIR/locks/k" ]; } # no refused command may have reached the store

@test "no command, an unknown one, an option in its place" {
  run --separate-stderr -64 "$DLOCK"
  assert_output ''
  assert_regex "$stderr" '^usage: dlock run '
  refused 64 'did you mean run?' rnu
  refused 64 "unknown command 'list'; did you mean inspect?" list
  refused 64 'did you mean inspect?' status k
  refused 64 'did you mean inspect --doctor?' doctor
  refused 64 'did you mean inspect?' help inspct
  refused 64 "help: unexpected argument 'x'" help run x
  refused 64 'did you mean --version?' version
  refused 64 'the command comes first' -q run --key k -- true
  refused 64 "unknown command ''" ''
  refused 64 '\x1b[2J' $'\e[2J'
  refused 64 "--version: unexpected argument 'run'" --version run
}

@test "-h and -V count only where nothing else is on the command line" {
  refused 64 "-h: unexpected argument 'db1'; did you mean --help?" -h db1
  refused 64 "-V: unexpected argument 'run'; did you mean --version?" -V run
  refused 64 "run: unknown option '-h'; did you mean --help?" run -h db1
  refused 64 "unknown option '-h'; did you mean --help?" run --key k -h -- true
  refused 64 "unknown option '-V'; did you mean dlock --version?" run -V --key k -- true
  refused 64 "unknown option '-h'" run -nh
  refused 64 "unknown option '-h'" run -h --
}

@test "options are known by their full name only" {
  refused 64 "unknown option '--bogus'" run --bogus --key k -- true
  refused 64 '\xff' run -$'\xff' --key k -- true
}

@test "names that other programs use get a hint, and are refused" {
  refused 64 'did you mean --wait or --max-run?' run --timeout 3 --key k -- true
  refused 64 'did you mean --wait?' acquire --timeout 3 --key k
  refused 64 "unknown option '--timeout' (" inspect --timeout 3
  refused 64 'did you mean --nonblock?' run --nb --key k -- true
  refused 64 'did you mean --key?' run --name k -- true
  refused 64 "unknown option '-wait'; did you mean --wait?" run --key k -wait=3 -- true
  refused 64 "unknown option '-json'; did you mean --json?" inspect -json
}

@test "an option of another command is refused with that command's name" {
  refused 64 "'--hold' is an option of acquire, not of run" run --hold --key k -- true
  refused 64 \
    "'-b' is an option of run, acquire, renew, release, check, inspect, bench, config, not of fence" \
    fence -b file: --state f --token 3 -- true
}

@test "an option needs its value, a switch takes none" {
  refused 64 '--command: must not be empty' run --key k -c ''
}

@test "the command goes after --" {
  refused 64 'the command after -- is missing' run --key k --
  refused 64 "unexpected argument 'true'" acquire --key k -- true
}

@test "keys" {
  refused 64 '--key is missing' acquire
  refused 64 '--key is missing' renew --handle h1:file.lease:00000000000000000000000000000000
  refused 64 '--key is missing' release
  refused 64 "--key '' is empty" run --key '' -- true
}

@test "durations" {
  refused 64 "--wait: '5 m'" run --key k --wait '5 m' -- true
  refused 64 "--ttl: '0' must be longer than 0" run --key k --ttl 0 -- true
  refused 64 "--op-timeout: '0s' must be longer than 0" run --key k --op-timeout 0s -- true
  refused 64 '60s' run --key k --lock-delay 61 -- true
  refused 64 'hour, day, week or month' run --key k --once-per fortnight -- true
  refused 64 'longer than 0' run --key k --once-per 0 -- true
  DLOCK_ONCE_PER=never refused 78 'DLOCK_ONCE_PER' run --key k -- true
  refused 64 '?short_ttl=yes' acquire -q --key k --ttl 1.9s
  refused 64 '?short_ttl=yes' \
    renew --key k --ttl 1.9s --handle h1:file.lease:00000000000000000000000000000000
}

@test "an old spelling is refused with the new one" {
  refused 64 '--status-file no longer exists: use --status FILE' run --status-file=e --key k -- true
  DLOCK_STATUS_FD=3 refused 78 'DLOCK_STATUS_FD no longer exists: use DLOCK_STATUS' \
    run --key k -- true
  refused 64 '--fail-if no longer exists: filter --output json with jq' bench --fail-if 'errors>0'
  DLOCK_NO_FOREGROUND=1 run --separate-stderr -0 "$DLOCK" inspect # has never had it
  assert_equal "$stderr" ''
  printf 'no-foreground = true\n' >"$BATS_TEST_TMPDIR/old.toml"
  refused 78 'old.toml:1: no-foreground no longer exists: use foreground' \
    run --config "$BATS_TEST_TMPDIR/old.toml" --key k -- true
}

@test "numbers and signals" {
  refused 64 "--conflict-exit-code: '256' is not a whole number from 0 to 255" \
    run --key k -E 256 -- true
  refused 64 "'0' is not a whole number from 1 to 1000000" run --key k --limit 0 -- true
  refused 64 "--signal: 'FOO' is not a signal" run --key k --signal FOO -- true
  refused 64 "'0' is not a fencing token" check --key k --token 0
  refused 64 "'-3' is not a fencing token" release --key k --force --token -3
  refused 64 "--descendants: 'leave' is neither wait nor kill" \
    run --key k --descendants leave -- true
  refused 64 "--output: 'xml' is neither text, json nor env" acquire --key k --output xml
  refused 64 "'97' is not an open descriptor" run --key k --status 97 -- true
  refused 64 'descriptor 0 is not open for writing' run --key k --status 0 -- true </dev/null
}

@test "contradictions" {
  refused 64 '--nonblock and --wait contradict each other' run --key k -w 3 -n -- true
  refused 64 '--force and --handle' \
    release --key k --force --handle h1:file.lease:00000000000000000000000000000000
  refused 64 '--yes goes with --force' release --key k --yes
  refused 64 '--token and --yes contradict each other' release --key k --force --token 3 --yes
  refused 64 '--token and --handle' \
    check --key k --token 3 --handle h1:file.lease:00000000000000000000000000000000
  refused 64 "'k' is not a sequencer" check k
  refused 64 'a key goes with --token, --handle or --key' check k
}

@test "times that do not fit name the options and the values that would fit" {
  # `file` has no lease to fit into unless it is detached; the fake backend's does.
  [ -x "$DLOCK_FAKE" ] || skip 'dlock_fake is not built'
  DLOCK=$DLOCK_FAKE
  refused 64 '--kill-after' run -b fake: --key k --ttl 3s --kill-after 4s -- true
  refused 64 '?short_ttl=yes' run -b fake: --key k --ttl 1999ms -- true
  refused 64 '?short_ttl=yes' run -b 'fake:?short_ttl=no' --key k --ttl 1999ms -- true
  "$DLOCK" run -b fake: --key k --ttl 2s -- true
  "$DLOCK" run -b 'fake:?short_ttl=yes' --key k --ttl 1999ms -- true
  DLOCK_TTL=1s refused 78 'DLOCK_TTL' run -b fake: --key k -- true
}

@test "zookeeper: a lock-delay that leaves too little of the ttl names the longest one that fits" {
  needs_backend zookeeper
  refused 64 '--lock-delay 30s: too long for --ttl 6s' \
    acquire -b zookeeper://h --key k --ttl 6s --lock-delay 30s
  refused 64 '?tick=' run -b zookeeper://h --key k --ttl 6s --lock-delay 30s -- true
  longest=$(sed -n 's/.*use up to \([^,]*\),.*/\1/p' <<<"$stderr")
  "$DLOCK" run --explain -b zookeeper://h --key k --ttl 6s --lock-delay "$longest" -- true
  "$DLOCK" run --explain -b 'zookeeper://h?tick=2s' --key k --ttl 6s --lock-delay 30s -- true
}

@test "zookeeper: a login without TLS is warned of, wherever it comes from" {
  needs_backend zookeeper
  (umask 077 && echo digest:me:geheim >"$BATS_TEST_TMPDIR/auth")
  for login in "-b zookeeper://h?auth_file=$BATS_TEST_TMPDIR/auth" \
    "-b zookeeper://h --auth-file $BATS_TEST_TMPDIR/auth"; do
    run --separate-stderr -0 "$DLOCK" run --explain $login --key k -- true
    [[ $stderr == *'the login is sent unencrypted'* ]]
  done
  run --separate-stderr -0 "$DLOCK" run --explain -b zookeeper://h --key k -- true
  [[ $stderr != *unencrypted* ]]
}

@test "handles, which messages never repeat" {
  refused 64 '--handle: ' release --key k --handle secret
  refused 64 '--handle -: standard input: ' release --key k --handle - <<<secret
  echo secret >"$BATS_TEST_TMPDIR/handle"
  refused 78 "--handle @FILE: '$BATS_TEST_TMPDIR/handle'" \
    release --key k --handle "@$BATS_TEST_TMPDIR/handle"
  [[ $stderr != *secret* ]]
  refused 78 'cannot be read: No such file' release --key k --handle "@$BATS_TEST_TMPDIR/none"
  refused 78 'cannot be read: Is a directory' release --key k --handle "@$BATS_TEST_TMPDIR"
  refused 78 'cannot be read: File too large' release --key k --handle @/dev/zero
  refused 64 '--handle -: ' release --key k --handle - </dev/null
  run -64 timeout 20 bash -c '"$DLOCK" release --key k --handle - <&-'
  assert_output --partial 'cannot read standard input'
  refused 64 'it is a handle of redis.fair, but --backend is file.lease' \
    release --key k --handle h1:redis.fair:00000000000000000000000000000000
  refused 64 '--handle is missing' release --key k
  DLOCK_HANDLE=h1:redis.fair:00000000000000000000000000000000 refused 64 '--handle is missing' \
    renew --key k
  [[ $stderr != *0000* ]]
}

@test "sequencers" {
  refused 64 "'v2:file.lease:k:X:3' is not a sequencer" check v2:file.lease:k:X:3
  refused 64 'is not a sequencer' check v1:file.lease:k:X
  refused 64 'is not a sequencer' check v1:file.lease:k:Q:3
  refused 64 'is a sequencer of redis.fair, but DLOCK_BACKEND is file.lease: name the same one' \
    check v1:redis.fair:k:X:3
  refused 64 'is a sequencer of file.flock, but DLOCK_BACKEND is file.lease' \
    check v1:file.flock:k:X:3
}

@test "backend URLs, schemes, recipes and items" {
  refused 64 "there is no scheme 'nope'" run -b nope:/x --key k -- true
  refused 64 'it has no scheme; allowed is SCHEME:PATH or SCHEME://HOST, as in' \
    run -b nothing --key k -- true
  refused 64 "'localhost:6379' has no scheme; did you mean redis://localhost:6379?" \
    run -b localhost:6379 --key k -- true
  refused 64 'did you mean redis://127.0.0.1:6379?' run -b 127.0.0.1:6379 --key k -- true
  refused 64 'did you mean zookeeper://zk-1.example:2181?' inspect -b zk-1.example:2181
  refused 64 'it has no scheme; allowed is' run -b 127.0.0.1:1 --key k -- true
  refused 64 "there is no scheme 'localhost'" run -b localhost:1 --key k -- true
  refused 64 'it has no scheme; a directory is file:/DIR' run -b /var/tmp/locks --key k -- true
  refused 64 '--backend: ' run -b 'file:///x#y' --key k -- true
  refused 64 "short_ttl: 'perhaps' is neither yes nor no" \
    run -b 'file:///x?short_ttl=perhaps' --key k -- true
  refused 64 "has no recipe 'fast'; allowed are lease, flock" \
    run -b 'file:///x?recipe=fast' --key k -- true
  refused 64 "--recipe: " run --recipe fast --key k -- true
  refused 64 "has no recipe 'fast'" inspect --recipe fast
  refused 64 'u:***@' run -b 'nope://u:geheim@h/' --key k -- true
  [[ $stderr != *geheim* ]]
}

@test "a wrong value of a URL item is refused before anything is waited for" {
  refused 64 'netfs=x: allowed are yes, no' run -b "file:$PWD?netfs=x" --splay 10m --key k -- true
  if built_with redis redlock; then
    refused 64 "restart_grace is 'x'; allowed is" \
      run -b 'redis://h?restart_grace=x' --splay 10m --key k -- true
    refused 64 "host is '2 hosts'; allowed is an odd number" \
      run -b redlock://a,b --splay 10m --key k -- true
  fi
  ! built_with zookeeper || refused 64 "tick is 'x'; allowed is" \
    run -b 'zk://h?tick=x' --splay 10m --key k -- true
  ! built_with mysql || refused 64 "wake is 'x'; allowed is" \
    run -b 'mysql://h/d?wake=x' --splay 10m --key k -- true
}

@test "a bad variable is 78 and named; a good option hides it" {
  DLOCK_NONBLOCK=maybe refused 78 "DLOCK_NONBLOCK: 'maybe' is neither 1, true, yes or on, nor 0" \
    run --key k -- true
  DLOCK_CONFLICT_EXIT_CODE=300 refused 78 "DLOCK_CONFLICT_EXIT_CODE: '300'" run --key k -- true
  DLOCK_BACKEND='' refused 78 'DLOCK_BACKEND: is set but empty' run --key k -- true
  DLOCK_BACKEND=nope: refused 78 'DLOCK_BACKEND: ' run --key k -- true
  DLOCK_RECIPE=fast refused 78 'DLOCK_RECIPE: ' run --key k -- true
  DLOCK_TTL=1s refused 78 'DLOCK_TTL: 1s must be at least 2s' acquire --key k
  DLOCK_SHARED=1 DLOCK_LIMIT=3 refused 78 'DLOCK_LIMIT and DLOCK_SHARED contradict' \
    run --key k -- true
  DLOCK_STATUS=97 refused 78 "DLOCK_STATUS: '97' is not an open descriptor" run --key k -- true

  DLOCK_WAIT=soon run -0 "$DLOCK" run --explain --key e -w 3
  DLOCK_WAIT=soon run -0 "$DLOCK" run --explain --key e -n # the same choice
  DLOCK_SHARED=1 run -0 "$DLOCK" run --explain --key e --limit 3
  assert_output --partial 'permit of 3'
  DLOCK_TTL=soon run -0 "$DLOCK" run --explain --key e --ttl 9
  DLOCK_BACKEND=nope: run -0 "$DLOCK" run --explain --key e -b "file:$BATS_TEST_TMPDIR/other"
  # Flag, URL, environment.
  DLOCK_RECIPE=fast run -0 "$DLOCK" run --explain --key e \
    -b "file:$BATS_TEST_TMPDIR/other?recipe=lease"
}

@test "a misspelt variable is 78 and the message names the probable one" {
  DLOCK_BACKNED=redis://h refused 78 \
    'DLOCK_BACKNED: there is no such variable; did you mean DLOCK_BACKEND?' run --key k -- true
  DLOCK_WIAT=3 refused 78 'did you mean DLOCK_WAIT?' acquire --key k
  DLOCK_CONECT_TIMOUT=3 refused 78 'did you mean DLOCK_CONNECT_TIMEOUT?' inspect
  DLOCK_BACKNED=x run -0 "$DLOCK" run --help
  for name in DLOCK_URL DLOCK_HOST; do
    for command in 'run --key k -- true' 'acquire k' 'inspect k' 'release k'; do
      env $name=redis://h bash -c '! "$@" 2>err' bash "$DLOCK" $command
      assert_equal "$(cat err)" \
        "dlock: $name: there is no such variable; did you mean DLOCK_BACKEND?"
      rm err
    done
    # fence has no backend.
    env $name=redis://h "$DLOCK" fence --state "$BATS_TEST_TMPDIR/state" --token 1 -- true
  done
}

@test "variables of others, of dlock itself and of a Kubernetes service dlock are not judged" {
  export DLOCK_SERVICE_HOST=10.0.0.1 DLOCK_SERVICE_PORT=6379 DLOCK_SERVICE_PORT_WAIT=1 \
    DLOCK_PORT=tcp://10.0.0.1:6379 DLOCK_PORT_6379_TCP_ADDR=10.0.0.1
  export DLOCK_KEYS_HOST=h DLOCK_WAITS=tcp://10.0.0.1:1 DLOCK_TEST_WAIT=1 DLOCK_SLOT=1 \
    DLOCK_TTL_MS=3 DLOCK_HOLD=1s DLOCK_MAX_HOLD=1h
  run --separate-stderr -0 "$DLOCK" run --explain --key e
  assert_equal "$stderr" 'dlock: ignored, no option has this name: DLOCK_KEYS_HOST'
  DLOCK_FLEET=x run --separate-stderr -0 "$DLOCK" inspect
  assert_equal "${#stderr_lines[@]}" 1
  local names='(FLEET, DLOCK_KEYS_HOST|KEYS_HOST, DLOCK_FLEET)'
  assert_regex "$stderr" "^dlock: ignored, no option has this name: DLOCK_$names\$"
  run --separate-stderr -0 "$DLOCK" run --explain -q --key e
  assert_equal "$stderr" ''
}

@test "variables stand for options, and only for those that may have one" {
  DLOCK_WAIT=7 run -0 "$DLOCK" run --explain --key e
  assert_output --partial 'at most 7s'
  DLOCK_NONBLOCK=yes run -0 "$DLOCK" run --explain --key e
  assert_output --partial 'one try'
  DLOCK_NONBLOCK=off run -0 "$DLOCK" run --explain --key e
  assert_output --partial 'for ever'
  DLOCK_FORCE=1 DLOCK_YES=1 DLOCK_TOKEN=3 refused 64 '--handle is missing' release -q --key k
  DLOCK_HOLD=maybe DLOCK_JSON=maybe DLOCK_CHECK=maybe refused 64 '?short_ttl=yes' \
    acquire -q --key k --ttl 1
}

@test "options may stand anywhere before --, in every form" {
  run -0 "$DLOCK" run --explain -nE9 --key=e
  assert_output --partial 'busy (status 9)'
  run -0 "$DLOCK" run --key e -w3m --explain -- a command --that -n is not read
  assert_output --partial 'at most 3m'
  refused 64 "'=3'" run --explain --key e -w=3
  run -0 "$DLOCK" run --explain --key -n # a value may look like an option
  assert_output --partial '-n (exclusive)'
  run -0 "$DLOCK" run --explain --key e -w 3 -w 5
  assert_output --partial 'at most 5s'
  POSIXLY_CORRECT=1 run -0 "$DLOCK" inspect k --no-heading
}
