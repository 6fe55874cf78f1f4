#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Which passwords and TLS files go to which backend. Nothing listens at port 1: a command line that
# is accepted ends with 69. (Those of no use for a backend: tests/pure/cli/command_line_test.)
load common

setup() {
  common_setup
  needs_backend redis
  export XDG_CONFIG_HOME=$PWD/xdg
  mkdir -p xdg/dlock
  printf 'canary\n' >pw
  printf 'digest:u:canary\n' >auth
  chmod 600 pw auth
  cp "$BATS_TEST_DIRNAME/../../LICENSE" ca.pem
  here=redis://127.0.0.1:1
}

accepted() { # WORDS ARGUMENT...: status 69, and WORDS in the output
  run -69 timeout 20 "$DLOCK" inspect --connect-timeout 50ms "${@:2}"
  refute_output --partial canary
  [[ -z $1 ]] || assert_output --partial "$1"
}

# answer TEXT: a server that gives this answer to everything, at $server.
answer() {
  rm -f port
  python3 - "$1" >port 3>&- <<'PY' &
import socket, sys, threading
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
def serve(c):
    with c:
        while (text := c.recv(4096)):
            print(text, file=sys.stderr, flush=True)
            c.sendall(sys.argv[1].encode() + b"\r\n")
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
PY
  pid=$!
  eventually test -s port
  server=redis://127.0.0.1:$(<port)
}

teardown() { [[ -z ${pid-} ]] || kill "$pid"; }

@test "a login of ZooKeeper that goes in clear is said, however it was given" {
  needs_backend zookeeper
  local far='zookeeper://nowhere.invalid:1'
  accepted 'sent unencrypted' -b "$far?auth_file=auth"
  accepted 'sent unencrypted' -b $far --auth-file auth
  accepted 'sent unencrypted' -b "zookeeper://u@nowhere.invalid:1" --password-file pw
  accepted '' -b $far
  refute_output --partial unencrypted
  accepted '' -b 'zookeeper://127.0.0.1:1?auth_file=auth'
  refute_output --partial unencrypted
}

@test "the secrets of a table are for its backend alone" {
  printf '[profile.prod]\nbackend = "redis://db1"\npassword-file = "%s"\n' \
    "$PWD/pw" >xdg/dlock/config.toml
  answer '-NOAUTH Authentication required.'
  run -77 timeout 20 "$DLOCK" inspect --profile prod -b "$server"
  assert_output --partial "not used for $server: "
  assert_output --partial 'config.toml:3: password-file is for redis://db1'
  run -77 timeout 20 "$DLOCK" inspect -v --profile prod -b "$server"
  assert_line --partial "not used for $server: "
  # The same server, whoever names it, with whatever database.
  printf '[profile.prod]\nbackend = "%s"\npassword-file = "%s"\n' "$server/3" \
    "$PWD/none" >xdg/dlock/config.toml
  refused 78 'config.toml:3: password-file' inspect --profile prod -b "$server"
  DLOCK_BACKEND=$server refused 78 'config.toml:3: password-file' inspect --profile prod
}

@test "a table's backend is the same: scheme, user, hosts and ports, with defaults" {
  same() { # TABLE'S COMMAND'S
    printf 'backend = "%s"\npassword-file = "%s"\n' "$1" "$PWD/none" >xdg/dlock/config.toml
    refused 78 'config.toml:2: password-file' inspect -b "$2"
  }
  another() {
    printf 'backend = "%s"\npassword-file = "%s"\n' "$1" "$PWD/none" >xdg/dlock/config.toml
    accepted 'not used for' -v -b "$2"
  }
  same redis://LOCALHOST:6379 'redis://localhost/3?restart_grace=0'
  same redis+cluster://127.0.0.1:1,127.0.0.2:1 redis+cluster://127.0.0.2:1,127.0.0.1:1
  another redis://127.0.0.1:2 $here
  another rediss://127.0.0.1:1 $here
  another redis://u@127.0.0.1:1 $here
  another redis+unix:///run/none redis+unix:///run/nowhere
  another redis+cluster://127.0.0.1:1,127.0.0.2:1 redis+cluster://127.0.0.1:1
}

@test "a lower table counts where the one above is for another backend; a flag counts always" {
  printf '[profile.p]\nbackend = "redis://db1"\npassword-file = "%s"\n' \
    "$PWD/pw" >xdg/dlock/config.toml
  printf 'backend = "%s"\npassword-file = "%s"\n' $here "$PWD/none" >low.toml
  refused 78 'low.toml:2: password-file' inspect --config low.toml --profile p -b $here
  accepted '' --config low.toml --profile p -b $here --password-file pw
  DLOCK_PASSWORD_FILE=pw accepted '' --config low.toml --profile p -b $here
}

@test "a table with secrets and no backend: 78; TLS files for a URL of the table without TLS: 78" {
  printf 'tls-ca = "/ca.pem"\n' >xdg/dlock/config.toml
  refused 78 'config.toml:1: tls-ca: this table names no backend' inspect -b $here
  printf 'backend = "redis://db1"\n[profile.p]\npassword-file = "/pw"\n' >xdg/dlock/config.toml
  refused 78 'config.toml:3: password-file: this table names no backend' inspect --profile p
  printf 'backend = "%s"\ntls-ca = "/ca.pem"\n' $here >xdg/dlock/config.toml
  unset DLOCK_BACKEND
  refused 78 'config.toml:2: tls-ca: no use for it' inspect
}

@test "bench: refused only if none of its backends can use it" {
  run -69 timeout 20 "$DLOCK" bench -d 100ms -b $here -b 'rediss://127.0.0.1:1?tls_ca=ca.pem' \
    --tls-insecure --connect-timeout 50ms
}
