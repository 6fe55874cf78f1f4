#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# `dlock run` on a terminal: the steps are those of pty_drive.
load common

setup() {
  clean_environment
  if (: </dev/tty) 2>/dev/null; then
    fail 'these tests want no terminal: run them by ctest, or under setsid -w'
  fi
}
teardown() { [ -z "${holder-}" ] || kill -KILL "$holder" 2>/dev/null || :; }

# A `dlock run` on the fake leased backend, for the shells below: $D -- COMMAND.
export D
D="$DLOCK_FAKE run -b fake: --key k"

# A command that Ctrl-Z shall stop must not be in vfork then: a shell that waits for its vfork
# cannot stop, with or without dlock.
# in_shell [STATUS]: the steps from the prompt of an interactive shell with job control to the next,
# where it exits, with the STATUS of its last command; with `-` it is not left.
# on_tty COMMAND...: without a shell, so it leads the session.
in_shell() {
  local end=$'expect rdy>\ntype exit\\n\nend exit '${1:-0}
  [ "${1:-0}" != - ] || end=
  { echo 'expect rdy>' && cat && echo "$end"; } |
    PS1='rdy> ' "$PTY_DRIVE" bash --norc --noprofile --noediting -i
}
on_tty() { "$PTY_DRIVE" "$@"; }

@test "a loop of an interactive shell ends on Ctrl-C" {
  in_shell 130 <<'STEPS'
    type for i in 1 2 3; do $D -- sh -c 'echo x >>log; echo star''ted; exec sleep 60'; done\n
    expect started
    type \x03
STEPS
  assert_equal "$(cat log)" x
}

@test "a loop of a script ends on Ctrl-C, and the script with it" {
  on_tty bash -c 'for i in 1 2 3; do $D -- sh -c "echo started; exec sleep 60"; done
    echo later' <<'STEPS'
    expect started
    type \x03
    end signal 2 (INT)
    reject started
    reject later
STEPS
}

@test "a loop around a dlock that waits ends on Ctrl-C, and its place in the queue with it" {
  export DLOCK_BACKEND=file:$PWD/locks
  "$DLOCK" run --key k -- sleep 300 3>&- &
  holder=$!
  eventually is_held k
  on_tty bash -c 'for i in 1 2 3; do
      "$DLOCK" run --key k --status ev -- touch ran
    done
    echo later' <<'STEPS'
    file ev
    expect waiting
    type \x03
    end signal 2 (INT)
    reject later
STEPS
  waiting 0 k
  [ ! -e ran ]
}

@test "Ctrl-C and Ctrl-\\ reach the command once, and neither starts --kill-after nor escalates" {
  on_tty sh -c 'echo $$ >dpid
    exec $D --ttl 6s -k 100ms --status ev -- sh -c "exec \"$SIGNAL_JOB\" print >got"' <<'STEPS'
    count 1 got up
    count 1 ev renewed
    type \x03
    count 1 got got 2
    count 2 ev renewed
    type \x03
    count 2 got got 2
    type \x1c
    count 1 got got 3
    count 4 ev renewed
    type \x03
    count 3 got got 2
    count 5 ev renewed
    type \x1a
    count 1 got got 20
    signal 15 dpid
    end exit 0
STEPS
  assert_equal "$(tr '\n' ' ' <got)" 'up got 2 got 2 got 3 got 2 got 20 got 15 '
}

@test "TERM on a terminal: forwarded once, then KILL after --kill-after" {
  on_tty sh -c 'echo $$ >dpid
    exec $D -k 300ms -- sh -c "trap \"echo x >>got\" TERM; echo up
      while :; do sleep 0.05; done"' <<'STEPS'
    expect up
    signal 15 dpid
    end signal 9 (KILL)
STEPS
  assert_equal "$(cat got)" x
}

@test "a HUP that a process sends is only forwarded" {
  on_tty \
    sh -c 'echo $$ >dpid; exec $D --ttl 6s -k 100ms --status ev -- "$SIGNAL_JOB" print' <<'STEPS'
    expect up
    signal 1 dpid
    expect got 1
    count 2 ev renewed
    signal 15 dpid
    expect got 15
    end exit 0
STEPS
}

@test "Ctrl-Z stops dlock with the command; fg continues both" {
  in_shell 5 <<'STEPS'
    type $D -- sh -c 'echo $$ >pid; echo star''ted; read -r line; echo got''$line; exit 5'\n
    expect started
    type \x1a
    expect Stopped
    expect rdy>
    stopped pid
    type fg\n
    type word\n
    expect gotword
STEPS
}

@test "Ctrl-Z, then bg: it runs on in the background" {
  in_shell <<'STEPS'
    type mkfifo gate; $D -- sh -c 'echo $$ >pid; echo star''ted; read -r x <gate; echo x >done'\n
    expect started
    type \x1a
    expect Stopped
    expect rdy>
    stopped pid
    type bg\n
    expect rdy>
    type echo >gate; wait\n
    file done
STEPS
}

@test "Ctrl-Z past the deadline: the command is killed while stopped, 123 after fg" {
  in_shell 123 <<'STEPS'
    type $D --ttl 2s -k 200ms -- sh -c 'echo $$ >pid; echo star''ted; exec sleep 60'\n
    expect started
    type \x1a
    expect Stopped
    gone pid
    expect rdy>
    type fg\n
    expect lost
STEPS
}

@test "a command that ignores Ctrl-Z: nothing stops, the lease is renewed" {
  in_shell 130 <<'STEPS'
    type $D --ttl 6s --status ev -- sh -c 'trap "" TSTP; echo star''ted; until [ -e go ]; do sleep 0.05; done; exit 5'\n
    expect started
    type \x1a
    count 3 ev renewed
    reject Stopped
    type \x03
STEPS
}

@test "a command that stops itself: dlock stops, fg continues" {
  in_shell 5 <<'STEPS'
    type $D -- sh -c 'echo $$ >pid; kill -STOP $$; echo con''tinued; exit 5'\n
    expect Stopped
    expect rdy>
    stopped pid
    type fg\n
    expect continued
STEPS
}

@test "the command reads from the terminal, even if its input is a pipe, and writes into one" {
  in_shell <<'STEPS'
    type $D -- sh -c 'echo re''ady; read -r x; echo got''$x'\n
    expect ready
    type one\n
    expect gotone
    expect rdy>
    type echo pi''ped | $D -- sh -c 'read -r a; echo re''ady >/dev/tty; read -r b </dev/tty; echo got''$a$b' | sed 's/^/se''d/'\n
    expect ready
    type two\n
    expect sedgotpipedtwo
STEPS
}

@test "in the background: a read of the terminal stops it, fg lets it read" {
  in_shell <<'STEPS'
    type $D -- sh -c 'echo $$ >pid; read -r x; echo got''$x' & echo $! >outer\n
    expect rdy>
    stopped pid
    stopped outer
    type fg\n
    type word\n
    expect gotword
STEPS
}

@test "in the background: no terminal needed, Ctrl-C does not reach it" {
  in_shell <<'STEPS'
    type $D -- sh -c 'echo x >up; until [ -e go ]; do sleep 0.02; done; echo x >done' &\n
    expect rdy>
    file up
    type \x03
    expect rdy>
    type touch go; wait $!\n
STEPS
}

@test "the terminal hangs up: the command gets HUP, nothing is left" {
  for shell in no yes; do
    rm -f pid
    run_it=(on_tty $D)
    [ $shell = no ] || run_it=(on_tty bash --norc --noprofile -c '"$@"; exit $?' bash $D)
    "${run_it[@]}" -- sh -c 'trap "echo x >hup; exit" HUP; echo $$ >pid; echo up
      while :; do sleep 0.05; done' <<'STEPS'
      expect up
      hangup
      gone pid
STEPS
    assert_equal "$(cat hup)" x
    rm hup
  done
}

@test "a hang-up under an interactive shell with a tree that resists: dead after --kill-after" {
  mkfifo tree
  export PS1='rdy> '
  # The FIFO needs a reader.
  (exec 3>&- && cat tree >lines) &
  in_shell - <<'STEPS'
    type $D -k 200ms -- $RESISTING_TREE $PWD/tree\n
    file lines
    hangup
STEPS
  assert_equal "$("$RESISTING_TREE" --count "$PWD/tree")" 0
}

@test "a HUP from a process just before the hang-up does not hide it: what survives is ended" {
  # A signal is queued once, with the sender of the first: while dlock is stopped the kernel's HUP
  # merges into the other.
  on_tty sh -c 'sh -c "echo \$\$ >dpid
    exec \$D -k 200ms -- sh -c \"trap : HUP; echo \\\$\\\$ >pid; echo up
      while :; do sleep 0.05; done\""; true' <<'STEPS'
    expect up
    signal 19 dpid
    stopped dpid
    signal 1 dpid
    hangup
    gone pid
STEPS
}

@test "a hang-up of a stopped job whose shell was killed: nothing is left" {
  on_tty sh -c 'echo $$ >shell; PS1="rdy> " exec bash --norc --noprofile --noediting -i' <<'STEPS'
    expect rdy>
    type $D -k 200ms -- sh -c 'echo $$ >pid; echo star''ted; exec sleep 60'\n
    expect started
    type \x1a
    expect Stopped
    stopped pid
    signal 9 shell
    gone pid
STEPS
}

@test "raw mode is restored when the command was killed at the deadline" {
  on_tty sh -c '"$0" run -b "fake:?hang_after=0" --key k --ttl 2s -k 100ms -- sh -c "stty raw -echo
      echo up; exec sleep 60"
    echo status=$?; stty -a' "$DLOCK_FAKE" <<'STEPS'
    expect up
    expect status=123
    expect  icanon
    end exit 0
    reject -icanon
STEPS
}

@test "--foreground=no: Ctrl-Z stops the command only; the lease is renewed; CONT continues it" {
  on_tty sh -c 'echo $$ >dpid; exec $D --foreground=no --ttl 6s --status ev -- \
    sh -c "echo \$\$ >pid; echo up; exec sleep 60"' <<'STEPS'
    expect up
    type \x1a
    stopped pid
    count 2 ev renewed
    signal 18 dpid
    type \x03
    end signal 2 (INT)
STEPS
}

@test "an interactive shell as the command" {
  in_shell 4 <<'STEPS'
    type PS1='in''ner> ' $D -- bash --norc --noprofile --noediting -i\n
    expect inner>
    type sh -c 'echo sleep''ing; exec sleep 60'\n
    expect sleeping
    type \x1a
    expect Stopped
    expect inner>
    type kill -9 %1; while jobs %1 >/dev/null 2>&1; do wait; done; echo wai''ted\n
    expect waited
    expect inner>
    type \x03
    expect inner>
    type exit 4\n
STEPS
}

@test "dlock leads the session: Ctrl-Z does not leave the command stopped for ever" {
  on_tty $D -- sh -c 'echo up; read -r x; echo got$x; exit 5' <<'STEPS'
    expect up
    type \x1a
    type word\n
    expect gotword
    end exit 5
STEPS
}

@test "the waiting line is redrawn each second on a terminal, and removed at the end" {
  TERM=xterm on_tty $DLOCK_FAKE run -b 'fake:?grant_after=6s' --key k -- echo granted <<'STEPS'
    expect waiting
    expect \rdlock: k
    expect \rdlock: k
    expect \r\e[K
    expect granted
    reject waiting
    end exit 0
STEPS
  TERM=dumb on_tty $DLOCK_FAKE run -b 'fake:?grant_after=2s' --key k -- \
    echo granted >shown <<'STEPS'
    expect waiting
    expect granted
    end exit 0
STEPS
  assert_equal "$(grep -c waiting shown)" 1
  refute grep -q $'\e' shown
}
