#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
load common

setup() {
  common_setup
  export XDG_CONFIG_HOME=$PWD/xdg
  mkdir -p xdg/dlock
}

value() { "$DLOCK" config "$@" | sed -n 's/ *#.*//; /^[a-z]/p'; }

@test "config --report sees cgroups of version 2, also beside those of version 1" {
  report_in() { # what the mount point holds
    unshare -m sh -c 'mount -t tmpfs cgroup /sys/fs/cgroup && cd /sys/fs/cgroup && eval "$1" &&
      exec "$2" config --report' sh "$1" "$DLOCK"
  }
  report_in true >/dev/null 2>&1 || skip 'needs the right to mount'
  run -0 report_in true
  assert_line 'cgroup v2: no'
  run -0 report_in 'touch cgroup.controllers'
  assert_line 'cgroup v2: yes'
  run -0 report_in 'mkdir unified && touch unified/cgroup.procs'
  assert_line 'cgroup v2: yes, beside v1'
}

@test "precedence: flag, environment, --config, the user's file; a profile overrides every file" {
  printf 'ttl = "1m"\nwait = "1m"\nreason = "user"\nsplay = "1s"\n[profile.p]\nsplay = "2s"\n' \
    >xdg/dlock/config.toml
  printf 'ttl = "2m"\nwait = "2m"\nreason = "file"\nsplay = "3s"\n' >other.toml
  DLOCK_WAIT=3m DLOCK_TTL=3m run -0 value --config other.toml --profile p --ttl 4m
  assert_line 'ttl = "4m"'
  assert_line 'wait = "3m"'
  assert_line 'reason = "file"'
  assert_line 'splay = "2s"'
}

@test "a choice is overridden as a whole: -n on the command line disables wait of the file" {
  printf 'wait = "1h"\n' >xdg/dlock/config.toml
  "$DLOCK" acquire --key k >/dev/null
  run -75 timeout 20 "$DLOCK" run -n --key k -- true
  DLOCK_NONBLOCK=1 run -75 timeout 20 "$DLOCK" run --key k -- true
  printf 'nonblock = true\n' >xdg/dlock/config.toml
  run -75 timeout 20 "$DLOCK" run --key k -- true
  DLOCK_NONBLOCK=0 run -124 timeout 1 "$DLOCK" run --key k -- true # waits
}

@test "config names the source, and hides secrets" {
  printf 'wait = "1m"\n' >xdg/dlock/config.toml
  run -0 "$DLOCK" config -b 'redis://u:hidden@h/0'
  assert_line "wait = \"1m\"  # $PWD/xdg/dlock/config.toml:1"
  assert_line --regexp '^backend = "redis://u:\*+@h/0"  # command line$'
  assert_line --regexp '^# ttl = 30s$'
  refute_output --partial hidden
  run -0 env DLOCK_PASSWORD=hidden "$DLOCK" config --report -b 'redis://u:hidden@h/0'
  refute_output --partial hidden
  assert_line --partial 'DLOCK_PASSWORD'
}

@test "config shows what any command reads, each name once; what it prints is a file" {
  printf 'wait = "1h"\n' >xdg/dlock/config.toml
  DLOCK_WAIT=3m DLOCK_OPS=5 DLOCK_DURATION=1m DLOCK_NONBLOCK=no DLOCK_FOREGROUND=no \
    run -0 "$DLOCK" config
  assert_line 'wait = "3m"  # DLOCK_WAIT'
  assert_line 'ops = "5"  # DLOCK_OPS' # of bench: no choice with --wait
  assert_line 'nonblock = false  # DLOCK_NONBLOCK'
  assert_line 'foreground = "no"  # DLOCK_FOREGROUND'
  assert_line '# max-hold = 1h'
  assert_equal "$(sed 's/^# //; s/ = .*//' <<<"$output" | sort | uniq -d)" ''
  echo "$output" | sed '/^\(ops\|duration\|backend\) /d' >made.toml
  run -0 value --config made.toml
  assert_line 'wait = "3m"'
}

@test "an option of another command in the file is ignored" {
  printf 'max-hold = "1m"\ncolumns = "KEY"\n' >xdg/dlock/config.toml
  run -0 "$DLOCK" run --key k -- true
  run -0 "$DLOCK" inspect
  assert_line --index 0 KEY
}

@test "require-backend: a command that names no backend is refused, and no other file undoes it" {
  unset DLOCK_BACKEND
  export HOME=$PWD XDG_STATE_HOME=$PWD/state
  printf 'require-backend = true\n' >site.toml
  printf 'require-backend = false\n' >xdg/dlock/config.toml
  refused 78 'site.toml:1 requires one (require-backend): name it with -b URL' \
    run --config site.toml --key k -- true
  for command in 'acquire --key k' inspect 'bench -N 1' 'check --key k --token 3' \
    'run --explain --key k -- true'; do
    # shellcheck disable=SC2086
    refused 78 'requires one' ${command%% *} --config site.toml ${command#"${command%% *}"}
  done
  [ ! -e state ]
  run -0 "$DLOCK" config --config site.toml
  assert_line 'require-backend = true  # site.toml:1'
  assert_line '# backend = none, and required'
  run -0 "$DLOCK" run --config site.toml -b "file:$PWD/locks" --key k -- true
  DLOCK_BACKEND=file:$PWD/locks run -0 "$DLOCK" run --config site.toml --key k -- true
  printf 'require-backend = true\nbackend = "file:%s/locks"\n' "$PWD" >site.toml
  run -0 "$DLOCK" run --config site.toml --key k -- true
  run -0 "$DLOCK" run --config site.toml --help
  printf 'require-backend = true\n' >xdg/dlock/config.toml
  printf 'require-backend = false\n' >site.toml
  refused 78 'xdg/dlock/config.toml:1 requires one' run --config site.toml --key k -- true
  printf 'require-backend = "perhaps"\n' >site.toml
  refused 78 'site.toml:1: require-backend:' run --config site.toml --key k -- true
  run -0 "$DLOCK" fence --config xdg/dlock/config.toml --state f --token 1 -- true # has no backend
}

@test "an option that bench has as well counts for the others too" {
  unset DLOCK_BACKEND DLOCK_RECIPE
  mkdir -m 700 elsewhere
  printf '%s\n' "backend = \"file:$PWD/elsewhere\"" 'recipe = "flock"' 'output = "json"' \
    'hold = "1ms"' 'duration = "1s"' >xdg/dlock/config.toml
  run -0 "$DLOCK" run --key k -- true
  [ -f elsewhere/k ]
  run -0 "$DLOCK" config
  assert_line --partial 'output = "json"'
  assert_line --partial 'recipe = "flock"'
  assert_line --partial "backend = \"file://$PWD/elsewhere\""
  assert_line --partial 'hold = "1ms"'
  printf 'recipe = "nope"\n' >xdg/dlock/config.toml
  refused 78 'config.toml:1: recipe' run --key k -- true
}

@test "secrets: a password file that others may read is refused" {
  needs_backend redis # that of files takes no password
  printf 'canary\n' >pw
  chmod 644 pw
  refused 78 'mode 0644' inspect -b redis://127.0.0.1:1 --password-file pw
  chmod 600 pw
  ln -s pw link
  refused 78 'symbolic link' inspect -b redis://127.0.0.1:1 --password-file link
  mkfifo fifo
  refused 78 'not a regular file' inspect -b redis://127.0.0.1:1 --password-file fifo
  : >empty
  chmod 600 empty
  refused 78 'first line is empty' inspect -b redis://127.0.0.1:1 --password-file empty
  run -69 timeout 20 "$DLOCK" inspect -b redis://127.0.0.1:1 --password-file pw \
    --connect-timeout 100ms
  refute_output --partial canary
}

@test "--log-format json: one object per line" {
  run --separate-stderr -127 "$DLOCK" run --log-format json --key k -- /nonexistent
  assert_equal "$(json 'j["level"], j["key"]' <<<"$stderr")" "('error', 'k')"
  run --separate-stderr -75 "$DLOCK" release --log-format json --key k \
    --handle h1:file.lease:00000000000000000000000000000000
  assert_equal "$(json 'j["message"]' <<<"$stderr")" 'k is not held by this handle'
}
