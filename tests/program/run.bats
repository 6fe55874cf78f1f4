#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What a command under `dlock run` sees, and what dlock shows of it.
load run_helpers

@test "-v reports acquire and release, -vv what happens in between" {
  run -0 on_file -v -- true
  assert_line --index 0 --regexp '^dlock: k: acquired after [0-9.]+[um]?s, token [0-9]+$'
  assert_line --index 1 --regexp '^dlock: k: released, [0-9.]+[um]?s after the start$'
  assert_equal "${#lines[@]}" 2
  run -3 on_file -vv -- sh -c 'exit 3'
  assert_line 'dlock: k: job_dead'
  assert_line 'dlock: k: exit: result command, code 3'
  run on_file -- true
  refute_output
}

@test "a command that cannot be executed: 127 or 126, one line, and the lock is released first" {
  touch plain
  while read -r status what why; do
    start it on_file -- "$what" arg
    ended it "exit $status"
    assert_equal "$(events it)" 'acquired job_dead released exit'
    assert_equal "$(<it.err)" "dlock: $what: $why"
    rm it.*
  done <<X
127 $dir/absent No such file or directory
126 $dir/plain Permission denied
126 $dir Permission denied
126 /proc/self/status Permission denied
X
  key_is_free
  run -127 on_file -- 'echo hi'
  assert_output 'dlock: echo hi: No such file or directory; -c runs a line by the shell'
}

@test "the command has exactly the descriptors that dlock was started with" {
  touch three nine
  local backend=file:$dir/locks
  compare() { # REDIRECTIONS: of a shell that executes the probe, and of one that executes dlock
    rm -f direct under
    sh -c "exec $1; exec \"\$PROBE\" fds direct"
    sh -c "exec $1; exec \"\$DLOCK\" run -b $backend --key k $2 -- \"\$PROBE\" fds under"
    diff direct under
  }
  compare '</dev/null >out 2>err'
  compare '</dev/null >out 2>err 3<three 9>nine'
  compare '</dev/null >out 2>err 3<three 4<>nine 7>>nine'
  compare '<&- >out 2>err'
  compare '</dev/null >&- 2>err'
  compare '</dev/null >out 2>&-'
  compare '<&- >&- 2>&-'
  compare '<&- >&- 2>&- 5>nine'
  compare '</dev/null >out 2>err 3<three' '--trace t --status s'
}

@test "the status descriptor is not passed on" {
  "$PROBE" fds direct 8>&- </dev/null >out 2>err 3>&-
  on_file --status 8 -- "$PROBE" fds under 8>status </dev/null >out 2>err 3>&-
  diff direct under
  grep -q '"event":"exit"' status
}

@test "arguments reach the command byte for byte" {
  set -- '' ' ' -- -n --key 'a  b' $'line\nline\n' $'\xff\xfe\x01' '$HOME' '*' "it's" '"' '\' é
  "$PROBE" args direct "$@"
  on_file -- "$PROBE" args under "$@"
  diff direct under
}

@test "-c runs a shell with the arguments after --" {
  run -3 on_file -c 'printf "%s|" "$0" "$@"; exit 3' -- a 'b c' -x
  assert_output 'sh|a|b c|-x|'
  run on_file -c 'echo $#' --
  assert_output 0
}

@test "DLOCK_ variables of the command" {
  run -0 on_lease --ttl 7s -- env
  for line in DLOCK_HELD=1 DLOCK_KEY=k DLOCK_TTL_MS=7000; do assert_line "$line"; done
  local token=$(sed -n 's/^DLOCK_TOKEN=//p' <<<"$output")
  [[ $token =~ ^[1-9][0-9]*$ ]]
  assert_line "DLOCK_SEQUENCER=v1:fake.lease:k:X:$token"
  assert_line --regexp '^DLOCK_HANDLE=.+'
  local grants=$(sed -n 's/^DLOCK_GRANTS=//p' <<<"$output")
  assert_regex "$grants" "^\[\{.*\"key\":\"k\".*\]$"
  assert_regex "$grants" "\"sequencer\":\"v1:fake.lease:k:X:$token\""
  assert_regex "$grants" '"mode":"X"'
  refute_line --regexp '^DLOCK_SLOT='
  refute_line --regexp '^DLOCK_(BACKEND|STATUS|ERROR)'
}

@test "DLOCK_ variables: modes, and values from outside are replaced or removed" {
  export DLOCK_TOKEN=5 DLOCK_SLOT=7 DLOCK_HELD=maybe DLOCK_GRANTS=x DLOCK_PASSWORD=secret \
    REDISCLI_AUTH=kept
  run -0 on_file -- env
  assert_line DLOCK_HELD=1
  refute_line DLOCK_TOKEN=5
  refute_line --regexp '^DLOCK_SLOT='
  refute_output --partial secret
  assert_line REDISCLI_AUTH=kept
  run on_file --limit 3 -- sh -c 'echo $DLOCK_SLOT $DLOCK_SEQUENCER'
  assert_output --regexp '^0 v1:file\.lease:k:P:[0-9]+$'
  run on_file -s -- sh -c 'echo $DLOCK_SEQUENCER'
  assert_output --regexp '^v1:file\.lease:k:S:[0-9]+$'
}

@test "--no-env: no variables are set, the password is removed all the same" {
  export DLOCK_PASSWORD=secret
  run -0 on_file --no-env -- env
  refute_output --regexp '(^|
)DLOCK_(HELD|KEY|TOKEN|SEQUENCER|HANDLE|TTL_MS|SLOT|GRANTS|PASSWORD)='
}

@test "env -i: an empty environment is enough" {
  run -0 env -i "$DLOCK" run -b "file:$dir/locks" --key k --no-env -- /usr/bin/env
  refute_output
  run -0 env -i "$DLOCK" inspect -b "file:$dir/locks"
  assert_line --partial 'free'
}

@test "the rest of the environment, umask, limits and directory are the command's" {
  umask 027
  ulimit -n 300 -t 1000
  run on_file -- sh -c 'umask; ulimit -n; ulimit -t; pwd'
  assert_output $'0027\n300\n1000\n'"$dir"
  env -0 DLOCK_TEST_RUN="$BATS_TEST_TMPDIR" | grep -zv ^_= | sort -z >wanted
  on_file --no-env -- env -0 | grep -zv ^_= | sort -z >got
  diff -a wanted got
}

@test "a pipe ends when the command closes its end, even before dlock ends" {
  mkfifo gate
  # The command closes stdout and lives until the reader has seen the end.
  timeout 20 sh -c '
    "$DLOCK" run -b "file:$1" --key k -- sh -c "echo line; exec >&-; read -r x <gate" |
      { cat >copy; echo seen >gate; }' sh "$dir/locks"
  assert_equal "$(cat copy)" line
  # A writer gets SIGPIPE.
  timeout 20 sh -c '{ yes; echo seen >gate; } |
    "$DLOCK" run -b "file:$1" --key k -- sh -c "exec <&-; read -r x <gate; echo \$x"' \
    sh "$dir/locks" >copy 2>/dev/null
  assert_equal "$(cat copy)" seen
}

@test "events come in order, with a rising t, and end with exit" {
  start it on_lease --ttl 2s -- sh -c 'until [ -e go ]; do sleep 0.05; done; exit 5'
  event it renewed
  touch go
  ended it 'exit 5'
  run events it
  assert_output --regexp '^acquired( renewed)+ job_dead released exit$'
  sed 's/.*"t":\([0-9.]*\).*/\1/' it.events >times
  sort -n -C times
  run tail -n 1 it.events
  assert_output --partial '"result":"command"'
  assert_output --partial '"code":5'
  assert_equal "$(stat -c %a it.events)" 600
}

@test "--status: digits are a descriptor, all else is a file; the last one counts" {
  names() { sed 's/.*"event":"\([a-z_]*\)".*/\1/' "$1"; }
  on_lease --status none --status 8 -- true 8>fd
  on_lease --status 8 --status ./9 -- true 8>none
  [ ! -s none ]
  assert_equal "$(names fd)" "$(names 9)"
  grep -q '"event":"exit"' 9
}

@test "--trace: one JSON object per line, invoke before its answer, t rising" {
  on_lease --trace t --ttl 2s -- true
  sed 's/.*"ev":"\([a-z_]*\)","f":"\([a-z_]*\)".*/\1 \2/' t >steps
  run cat steps
  assert_line --index 0 'invoke acquire'
  assert_line --index 1 'ok acquire'
  assert_line 'child_start job'
  assert_line 'tree_dead job'
  assert_line 'ok release'
  assert_line --index "$((${#lines[@]} - 1))" 'exit run'
  [ "$(grep -n 'tree_dead job' steps | cut -d: -f1)" \
    -lt "$(grep -n 'invoke release' steps | cut -d: -f1)" ]
  sed 's/^{"t":\([0-9]*\),.*/\1/' t | sort -n -C
}

@test "--trace: a grant that came too late to start the job is released there, too" {
  faults='lose=acquire&drip=1200ms' on_lease --trace t --ttl 2s -w 20s -- true
  run grep -c '"ev":"ok","f":"acquire"' t
  assert_output 2
  run grep -c '"ev":"invoke","f":"release"' t
  assert_output 2
}

@test "a reader of the status that left, or does not read, changes nothing" {
  mkfifo gone
  exec 7<>gone 8>gone 7<&-
  run -4 on_lease --status 8 -- sh -c 'exit 4' 8>&8
  exec 8>&-
  # The FIFO is not read: dlock writes for at most 2 s and exits.
  mkfifo deaf
  exec 7<>deaf
  dd if=/dev/zero of=deaf oflag=nonblock bs=4096 count=1000 2>/dev/null || : # full
  run -4 timeout 20 "$DLOCK_FAKE" run -b fake: --key k --status 7 -- sh -c 'exit 4'
}

@test "a status descriptor that is not open is refused before anything happens" {
  run -64 on_file --status 8 -- touch ran 8>&-
  assert_output --regexp '^dlock: .*--status.*8'
  [ ! -e ran ]
}

@test "nested: the inner lock and job end when the outer dlock is killed" {
  mkfifo tree
  start outer on_file -- "$DLOCK" run -b "file:$dir/locks" --key inner -- \
    "$RESISTING_TREE" "$dir/tree"
  timeout 20 sh -c 'read -r line <tree; echo "$line"' >line
  assert_regex "$(cat line)" '^complete 12$'
  send outer KILL
  ended outer
  # The next holder of the inner key finds no living member of that tree.
  run timeout 20 "$DLOCK" run -b "file:$dir/locks" --key inner -- \
    "$RESISTING_TREE" --count "$dir/tree"
  assert_output 0
  run timeout 20 "$DLOCK" run -b "file:$dir/locks" --key k -- "$RESISTING_TREE" --count "$dir/tree"
  assert_output 0
}

# The kernel frees the memory of a killed process before it closes its descriptors: this one, which
# has 60 MB and a lock of flock(1), dies later than a guard and a dlock that are killed with it.
@test "nested: the inner lock is held until the last member of the inner job is dead" {
  for killed in pid_of guard_of; do
    # shellcheck disable=SC2016
    start outer on_file -- "$DLOCK" run -b "file:$dir/locks" --key inner -- flock judge \
      perl -e 'my $x = "x" x 60_000_000; open(my $up, ">", "up"); sleep 60'
    until_true 'start of the inner job' test -e up
    "$DLOCK" run -b "file:$dir/locks" --key inner --status 5 -- flock -n judge true 5>next.events &
    until_true 'a waiter' grep -q waiting next.events
    kill -KILL "$($killed outer)"
    wait $!
    ended outer
    rm up outer.end* next.events
  done
}

@test "nested: the guard of an inherited lock is identified by pid and start time" {
  # shellcheck disable=SC2016
  run on_file -- bash -c '"$DLOCK" run -b "file:$0/locks" --key k -n -- true || exit 1
    export DLOCK_GRANTS=$(sed "s/\"start\":\([0-9]*\)/\"start\":1\1/" <<<"$DLOCK_GRANTS")
    "$DLOCK" run -b "file:$0/locks" --key k -n -- true' "$dir"
  assert_failure 75
}

@test "nested: a valid hold of a dlock that is no ancestor is not trusted" {
  # shellcheck disable=SC2016
  start outer on_file -- sh -c 'echo "$DLOCK_GRANTS" >grants; echo up; exec sleep 60'
  said outer up
  DLOCK_GRANTS=$(cat grants) run on_file -n -- touch ran
  assert_failure 75
  [ ! -e ran ]
  send outer TERM
  ended outer
}

@test "nested: an ancestor's hold that is no longer valid is not trusted: an ordinary contender" {
  # shellcheck disable=SC2016
  run on_file --on-lost signal:CONT -- bash -c 'K="-b file:$0/locks --key k"
    "$DLOCK" release $K --force --yes && "$DLOCK" acquire $K --ttl 1m >taken &&
      "$DLOCK" run $K -n -- touch ran
    echo nested=$?' "$dir"
  assert_line nested=75
  [ -s taken ] && [ ! -e ran ]
}

@test "setsid and nohup" {
  run -6 setsid -w "$DLOCK" run -b "file:$dir/locks" --key k -- sh -c 'exit 6'
  start it on_file -- true
  ended it
  nohup "$PROBE" end "$dir/hup.end" "$DLOCK" run -b "file:$dir/locks" --key k \
    --status hup.events -- \
    sh -c 'echo up >up; until [ -e go ]; do sleep 0.05; done; exit 6' >/dev/null 2>&1 3>&- &
  until_true 'the command' test -s up
  kill -HUP "$(cat hup.end.pid)"
  touch go
  ended hup 'exit 6'
}

@test "as PID 1 of a namespace: statuses, signals as 128+n, orphans, TERM" {
  unshare -pf --mount-proc true 2>/dev/null || skip 'needs the right to make namespaces'
  in_namespace() { unshare -pf --mount-proc "$DLOCK_FAKE" run -b fake: --key k "$@"; }
  run -6 in_namespace -- sh -c 'exit 6'
  run -138 in_namespace -- sh -c 'kill -USR1 $$'
  run -6 in_namespace --descendants kill -- sh -c '(setsid sleep 60 &) & exit 6'
  unshare -pf --mount-proc "$DLOCK_FAKE" run -b fake: --key k --status s -- \
    sh -c 'echo up >up; exec sleep 60' 3>&- &
  local outside=$!
  until_true 'the command' test -s up
  local inside
  inside=$(cat /proc/$outside/task/*/children) inside=${inside% } # dlock, seen from outside
  # A process of `docker exec` leaves an orphan, which ends while the command runs.
  nsenter -t "$inside" -p -m sh -c 'cd "$1" && mkfifo gate && { (read -r x <gate) & }' sh "$PWD"
  until_true 'the orphan is its child' sh -c '[ "$(wc -w </proc/$1/task/$1/children)" = 2 ]' \
    sh "$inside"
  echo >gate
  until_true 'the orphan is reaped' sh -c '[ "$(wc -w </proc/$1/task/$1/children)" = 1 ]' \
    sh "$inside"
  kill -TERM "$inside"
  until_true 'the end' grep -q '"event":"exit"' s
  local status=0
  wait $outside || status=$?
  assert_equal $status 143
}

@test "of -q and -v on one command line the last one counts" {
  run --separate-stderr -0 on_file -q -v -- true
  [[ $stderr == *acquired* ]]
  run --separate-stderr -0 on_file -qv -- true
  [[ $stderr == *acquired* ]]
  run --separate-stderr -0 on_file -vv -q -- true
  assert_equal "$stderr" ''
  DLOCK_VERBOSE=1 run --separate-stderr -0 on_file -v -q -- true
  assert_equal "$stderr" ''
  DLOCK_QUIET=1 DLOCK_VERBOSE=1 run --separate-stderr -78 on_file -- true
}
