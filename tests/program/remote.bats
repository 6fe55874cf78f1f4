#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# `ssh HOST dlock run` and `sudo dlock run`, as dlock-run(1) describes them. A private sshd on the
# loopback interface, with temporary keys.
load common

setup_file() {
  local dir=$BATS_FILE_TMPDIR sshd said port
  for sshd in /usr/sbin/sshd /usr/bin/sshd; do [ ! -x $sshd ] || break; done
  if [ ! -x $sshd ] || ! command -v ssh >/dev/null || ! command -v setpriv >/dev/null; then
    return 0
  fi
  [ "$(id -u)" -ne 0 ] || mkdir -p /run/sshd
  ssh-keygen -q -t ed25519 -N '' -f "$dir/host" && ssh-keygen -q -t ed25519 -N '' -f "$dir/id"
  exec {said}< <(exec python3 "$BATS_TEST_DIRNAME/../support/ports.py" 3>&-)
  read -r port <&"$said"
  cat >"$dir/server" <<CONFIG
Port $port
ListenAddress 127.0.0.1
HostKey $dir/host
AuthorizedKeysFile $dir/id.pub
PidFile none
UsePAM no
StrictModes no
PermitRootLogin yes
LogLevel VERBOSE
CONFIG
  setpriv --pdeathsig KILL $sshd -D -e -f "$dir/server" 3>&- 2>"$dir/server.err" &
  echo $! >"$dir/server.pid"
  until grep -qE 'listening|Cannot|rror' "$dir/server.err"; do
    kill -0 $! 2>/dev/null || break
    sleep 0.02
  done
  cat >"$dir/client" <<CONFIG
Host there
  HostName 127.0.0.1
  Port $port
  IdentityFile $dir/id
  IdentitiesOnly yes
  UserKnownHostsFile /dev/null
  StrictHostKeyChecking no
  BatchMode yes
  LogLevel ERROR
CONFIG
}

teardown_file() {
  [ ! -e "$BATS_FILE_TMPDIR/server.pid" ] ||
    kill "$(cat "$BATS_FILE_TMPDIR/server.pid")" 2>/dev/null || :
}

setup() {
  common_setup
  cat >job <<'JOB'
echo $$ >pid
echo up
until [ -e go ]; do sleep 0.02; done
exit 7
JOB
}

there() { # [SSH OPTION...] -- WORD...: over ssh, in this directory
  local options=()
  while [ "$1" != -- ]; do options+=("$1") && shift; done
  shift
  exec ssh -F "$BATS_FILE_TMPDIR/client" "${options[@]}" there \
    "cd '$PWD' && exec '$DLOCK' run -b '$DLOCK_BACKEND' --key k $* -- sh job"
}
needs_ssh() {
  [ -e "$BATS_FILE_TMPDIR/client" ] || skip 'no sshd, ssh or setpriv'
  ssh -F "$BATS_FILE_TMPDIR/client" there true </dev/null ||
    fail "$(cat "$BATS_FILE_TMPDIR/server.err")"
}
cut_connections() {
  grep -cE 'Read error|Connection (closed|reset)' "$BATS_FILE_TMPDIR/server.err" || :
}
export -f cut_connections
gone() { ! kill -0 "$(cat pid)" 2>/dev/null; }

@test "ssh: output, exit status, busy" {
  needs_ssh
  touch go
  run --separate-stderr -7 there --
  assert_output up
  assert_equal "$stderr" \
    "dlock: --backend: lock directory $PWD/locks does not exist; the first lock makes it"
  run -75 bash -c "$(declare -f there); "'"$DLOCK" acquire --key k >/dev/null; there -- -n'
}

@test "ssh without a terminal: when the client dies the job goes on, with the lock, to its end" {
  needs_ssh
  before=$(cut_connections)
  there -- --status ev >out 3>&- </dev/null &
  client=$!
  eventually test -s pid
  end_of $client
  eventually bash -c '[ "$(cut_connections)" -gt "$0" ]' "$before" # the server has noticed
  is_held k
  touch go
  eventually grep -q '"event":"exit"' ev
  assert_equal "$(sed -n 's/.*"code":\([0-9]*\).*/\1/p' ev)" 7
  is_free k
}

@test "ssh with a terminal: when the client dies the job is hung up, or killed; the key is free" {
  needs_ssh
  for ignored in '' HUP; do
    rm -f pid ev
    sed -i '/^trap/d' job
    [ -z "$ignored" ] || sed -i '1i trap "" HUP' job
    there -tt -- --status ev -k 300ms >out 3>&- </dev/null &
    client=$!
    eventually test -s pid
    end_of $client
    eventually grep -q '"event":"exit"' ev
    gone
    is_free k
    [ -z "$ignored" ] || grep -q '"event":"kill"' ev
  done
}

@test "ssh: acquire --hold releases the lock when the client dies: its standard input ends" {
  needs_ssh
  mkfifo input
  ssh -F "$BATS_FILE_TMPDIR/client" there \
    "exec '$DLOCK' acquire --hold -b '$DLOCK_BACKEND' --key k" >out 3>&- <input &
  client=$!
  exec 9>input
  eventually is_held k
  end_of $client
  eventually is_free k
  exec 9>&-
}

@test "sudo: output, exit status, a TERM that sudo forwards" {
  sudo -n true 2>/dev/null || skip 'no sudo without a password'
  touch go
  run -7 sudo -n "$DLOCK" run -b "$DLOCK_BACKEND" --key k -- sh job
  assert_output up
  rm go pid
  sudo -n "$DLOCK" run -b "$DLOCK_BACKEND" --key k --status "$PWD/ev" -- sh job >out 3>&- &
  sudo=$!
  eventually test -s pid
  sudo -n kill "$sudo"
  wait $sudo && fail 'it did not end' || [ $? -eq 143 ]
  gone
  is_free k
}
