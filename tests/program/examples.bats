#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Every example of the README and the manual is run here, or named with the reason why it is not.
# The last test knows of the lines that no other one has named, so the order counts.
load common

root=$BATS_TEST_DIRNAME/../..

setup_file() { : >"$BATS_FILE_TMPDIR/covered"; }

# What the examples call is in bin/, and says how it was called in the file `calls`.
setup() {
  common_setup
  mkdir bin
  ln -s "$DLOCK" bin/dlock
  local name
  for name in report worker make rsync curl c; do
    printf '#!/bin/sh\necho "%s $*" >>"%s/calls"\n' $name "$BATS_TEST_TMPDIR" >bin/$name
  done
  printf '#!/bin/sh\necho "train $CUDA_VISIBLE_DEVICES" >>calls\n' >train
  printf '#!/bin/sh\necho "migrate $*" >>calls\n' >migrate
  printf '#!/bin/sh\necho page\n' >bin/render
  printf '#!/bin/sh\nshift\nexec "$@"\n' >bin/ssh # the host is this one
  chmod +x bin/* train migrate
  PATH=$BATS_TEST_TMPDIR/bin:$PATH
}

# The lines of the examples of a page; of the README, besides, the commands between words.
lines_of() {
  case $1 in
    README.md)
      awk '/^```/ { p = !p; next } p' "$root/README.md"
      grep -oE '`(dlock|scripts/[a-z]+|cmake|apt|man|REVOKE)( [^`]+)?`' "$root/README.md" |
        tr -d '`'
      ;;
    *)
      awk '/^\.Bd -literal/ { p = 1; next }
        /^\.Ed/ { p = 0 }
        /^\.Dl / { print substr($0, 5); next }
        p' "$root/man/$1"
      ;;
  esac | sed 's/\\(dq/"/g; s/\\e/\\/g; s/^\\&//; s/\\-/-/g' | grep .
}

# example PAGE FIRST [LAST]: $example is what the page prints, from the line FIRST on, or the first
# that begins so, to the next one that begins with LAST; that line alone without LAST.
example() {
  example=$(lines_of "$1" | FIRST=$2 LAST=${3-} awk '
    { line[NR] = $0 }
    $0 == ENVIRON["FIRST"] && !same { same = NR }
    index($0, ENVIRON["FIRST"]) == 1 && !first { first = NR }
    END {
      if (same) first = same
      if (!first) exit
      for (last = first; ENVIRON["LAST"] != "" && index(line[last], ENVIRON["LAST"]) != 1;)
        if (last++ == NR) exit
      for (n = first; n <= last; ++n) print line[n]
    }' | grep .) || fail "$1 has no example from $2 to ${3-there}"
  sed "s/^/$1: /" <<<"$example" >>"$BATS_FILE_TMPDIR/covered"
}
# not_run PAGE REASON FIRST [LAST]: the same, with the reason why it is not run as it stands.
not_run() { example "$1" "${@:3}"; }
run_example() { run -"${1:-0}" timeout 60 bash -c "$example"; }
# run_busy KEY [STATUS]: another holds the key, so what the example does with the lock is not done.
run_busy() {
  local as_printed=$example was handle
  handle=$(dlock acquire --key "$1")
  was=$(cat calls 2>/dev/null || :)
  example=$(sed -E 's/-w [0-9]+[sm]/-w 200ms/g' <<<"$example")
  run_example "${2:-75}"
  example=$as_printed
  assert_equal "$(cat calls 2>/dev/null || :)" "$was"
  dlock release --key "$1" --handle "$handle"
}
is_called() { assert_equal "$(cat calls)" "$1"; }

@test "the line for cron: a second one, while the lock is kept, is no failure and runs nothing" {
  for page in dlock.1 dlock-run.1; do example $page '*/5 * * * *  /usr/bin/dlock run'; done
  same=${example/\/usr\/bin\//}
  example README.md '*/5 * * * *  dlock run'
  assert_equal "$example" "$same"
  example=${example#'*/5 * * * *  '}
  example=${example//\/usr\/local\/bin\//}
  run_busy report 0
  run_example
  run_example
  is_called 'report '
}

@test "one deployment after the other" {
  example dlock.1 'dlock run -w 15m --key deploy'
  export CI_JOB_URL=https://ci/7
  run_busy deploy
  run_example
  is_called 'make deploy'
}

@test "four at a time" {
  example dlock.1 'dlock run --limit'
  run_example
  is_called 'train 0'
}

@test "a lock around several steps of a script" {
  example dlock.1 'grant=$(dlock acquire' "trap 'dlock"
  same=$example
  example README.md 'grant=$(dlock acquire' "trap 'dlock"
  assert_equal "$example" "$same"
  example+=$'\ndlock inspect --check migrate || echo held >>calls'
  run_busy migrate
  run_example
  is_called held
  is_free migrate
  example dlock-acquire.1 'grant=$(dlock acquire' './migrate'
  run_busy migrate
  run_example
  assert_regex "$(tail -n 1 calls)" '^migrate --fence [1-9][0-9]+$'
  is_free migrate
}

@test "the same, kept by a process" {
  example dlock-acquire.1 'handle=$(dlock' 'dlock release'
  run_busy migrate
  run_example
  is_called 'migrate '
  is_free migrate
}

@test "held while a person works, until the end of its input" {
  example dlock-acquire.1 'dlock acquire --hold'
  example=${example/--hold/--hold -n} run_busy deploy
  run_example </dev/null
  is_free deploy
}

@test "shared with flock(1)" {
  example dlock.1 'mkdir -p /run/lock/app' 'flock /run/lock/app/sync'
  example=${example//\/run\/lock/$PWD}
  run_example
  is_called $'rsync -a src/ dst/\nrsync -a src/ dst/'
}

@test "a configuration file" {
  example dlock.1 'backend = "redis://db1"' 'quiet = true'
  unset DLOCK_BACKEND
  echo "$example" >config.toml
  run -0 "$DLOCK" config --config config.toml --profile batch
  assert_line --partial 'backend = "redis://db1?restart_grace=2m"'
  assert_line --regexp '^wait = "?15m'

  mkdir -p xdg/dlock
  mv config.toml xdg/dlock
  export XDG_CONFIG_HOME=$PWD/xdg
  example dlock-config.1 'dlock config --profile'
  run_example
  assert_line --partial 'quiet = true'
}

@test "a fleet: the configuration of the README and the manual, the cron line, the accounts" {
  needs_backend redis mysql
  not_run README.md 'with /etc/dlock in another place, and no server is asked' \
    'require-backend' 'tls-ca ='
  echo "${example//\/etc\/dlock/$PWD}" >config.toml
  same=$(tail -n +2 <<<"$example")
  not_run dlock.1 'the same' '[profile.fleet]' 'tls-ca ='
  assert_equal "$example" "$same"
  not_run README.md 'in its place' 'backend = "mysql:'
  sed "s|^backend.*|$example|" config.toml >mysql.toml
  (umask 077 && echo secret >password)
  openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -subj /CN=ca -days 2 \
    -out ca.pem 2>/dev/null
  unset DLOCK_BACKEND
  not_run README.md 'its server is of another place' '0 3 * * *  dlock'
  cron=${example#'0 3 * * *  '}
  not_run dlock.1 'likewise' 'dlock run --profile'
  by_hand=$example
  for file in config mysql; do
    for line in "$cron" "$by_hand"; do
      run -0 bash -c "${line/dlock run/dlock run --explain --config $file.toml}"
      assert_output --partial locks.example
    done
    run -78 dlock run --config $file.toml --key k -- true # without a profile
    assert_output --partial 'no backend is given'
    export DLOCK_CONFIG=$file.toml
    for page in README.md dlock.1; do
      not_run $page 'its server is of another place' 'dlock inspect --doctor'
    done
    run -64 "$DLOCK" inspect --doctor --profile fleet k # the options are understood
    unset DLOCK_CONFIG
  done
  not_run README.md 'the rights are those of dlock-redis(7), see below' \
    'ACL SETUSER dlock' 'ACL SETUSER dlock +zcount'
  assert_equal "$example" "$(lines_of dlock-redis.7 | grep '^ACL ')"
  not_run README.md 'for an administrator of the server' 'CONFIG SET' 'CONFIG REWRITE'
  not_run README.md 'likewise' 'REVOKE CREATE'
  not_run README.md 'likewise' 'CREATE DATABASE' 'GRANT CREATE'
  same=$example
  not_run dlock-mysql.7 'likewise' 'CREATE DATABASE' 'GRANT CREATE'
  assert_equal "$example" "$same"
}

@test "in continuous integration" {
  example dlock.1 'export DLOCK_BACKEND="redis://$CI_REDIS?restart_grace=0"' 'dlock run'
  if built_with redis; then
    CI_REDIS=127.0.0.1:1 run -0 bash -c "${example/dlock run/dlock run --explain}"
  fi
  CI_REDIS= run_example 78 # forgotten: no lock, and no job
  example=${example/'redis://$CI_REDIS?restart_grace=0'/file:$PWD/locks}
  mkdir locks
  run_example
  is_called 'make check'
}

@test "the result, read from the events" {
  printf '#!/bin/sh\nexit 75\n' >report # as dlock itself does
  chmod +x report
  example dlock-run.1 'dlock run -n --status' 'esac'
  run_example
  assert_line 'the report has run to its end'
  handle=$(dlock acquire report)
  run_example
  assert_line 'another host writes the report'
  dlock release report --handle "$handle"
  rm report
  run_example
  assert_line 'no report'
}

@test "check before the step that cannot be undone" {
  example dlock-check.1 'dlock check "$DLOCK_SEQUENCER"'
  touch out.tmp
  run -0 dlock run --key k -c "$example"
  assert [ -e out ]
}

@test "a writer with a token" {
  example dlock-run.1 'dlock run --key export'
  run_example
  assert_regex "$(cat calls)" '^curl -H X-Token: [1-9][0-9]+ -T out.csv https://store/out.csv$'
}

@test "a fence on the storage host" {
  example dlock-fence.1 '#!/bin/sh' "  sh -c 'cat"
  mkdir site
  echo "${example//\/srv/$PWD}" >bin/publish
  chmod +x bin/publish
  not_run dlock-fence.1 'a prompt' '$ cat'
  not_run dlock-fence.1 'prompts, and tokens of another day' 'B$ dlock run' 'dlock: token 41'
  run -0 dlock run --key site -c 'render | ssh storage publish "$DLOCK_TOKEN"'
  assert_equal "$(cat site/index.html)" page
  run -123 publish 41 </dev/null
  local newest="the newest that '$PWD/site/.fence' has seen; the command was not run"
  assert_output --regexp "^dlock: token 41 is older than [0-9]+, $newest\$"
}

@test "looking, renewing, forcing" {
  for first in 'dlock inspect --held' "dlock inspect 'svc-" 'dlock inspect -J'; do
    example dlock-inspect.1 "$first"
    dlock run --key nightly -c "$example" >out
    assert [ -s out ]
  done
  example dlock-renew.1 'dlock renew --key'
  DLOCK_HANDLE=$(dlock acquire --key migrate) run_example
  example dlock-release.1 'dlock release --key deploy --revoke'
  hold_by_job deploy
  run_example
  wait $pid || :
  example dlock-release.1 'dlock inspect deploy' 'dlock release --key deploy --force'
  dlock acquire --key deploy
  token=$(dlock inspect -J deploy |
    json 'j["holders"][0]["token"] if "holders" in j else j["keys"][0]["holders"][0]["token"]')
  example=${example/1766534400000000/$token}
  run_example
  is_free deploy
}

@test "the lock is stuck: what is printed is what the manual shows" {
  # Hosts, numbers and times are of another day: the words of each line are compared.
  words() {
    sed -E -e 's/^\$ .*//; s/on host .*/on host/; s/its job on [^ ]+/its job on/' \
      -e 's/[a-z0-9.-]+:[0-9]+ \([a-z0-9_-]+\)/HOLDER/; s/id [0-9a-f]+/id/' \
      -e "s/file:[^ ,']*/file:/" \
      -e 's/in [0-9dhmsu.]+|now(,|$)/in/g; s/[0-9][0-9TZdhmsu.:-]*//g; s/ +/ /g; s/in,/in/g' |
      tr -d ',' | grep .
  }
  shown() { lines_of dlock.1 | sed -n "/^\\$ $1/,/^$2/p"; }
  hold_by_job nightly --reason 'full backup'
  dlock run --key nightly -- true 3>&- 2>/dev/null &
  second=$!
  eventually waiting 1 nightly
  assert_equal "$(dlock inspect nightly | words)" "$(shown 'dlock inspect nightly$' force | words)"
  run -0 dlock release --key nightly --revoke --wait 1m
  wait $pid || :
  wait $second

  dlock acquire --key nightly --ttl 1h >/dev/null
  dlock inspect nightly >now
  lines_of dlock.1 | grep -A3 'token 1795364499220625, id' >then
  while IFS= read -r line; do
    grep -qxFe "$line" <(words <now) || fail "not printed: $line"
  done < <(words <then)
  token=$(dlock inspect nightly --no-heading -o TOKEN)
  assert_equal "$(dlock release --key nightly --force --token "$token" 2>&1 | words)" \
    "$(shown 'dlock release --key nightly --force' dlock: | words)"

  dlock run --key daily --once-per day -- true
  assert_equal "$(dlock inspect daily | words)" "$(shown 'dlock inspect daily' where | words)"
  if built_with redis; then
    assert_equal "$(dlock inspect nightly -b redis://127.0.0.1:1 2>&1 | words)" \
      "$(shown 'dlock inspect nightly -b' dlock: | words)"
  fi
  sed -n '/^\.Sh THE LOCK IS STUCK/,/^\.Sh EXAMPLES/p' "$root/man/dlock.1" |
    awk '/^\.Bd -literal/ { p = 1; next } /^\.Ed/ { p = 0 } p' |
    sed 's/^/dlock.1: /' >>"$BATS_FILE_TMPDIR/covered"
}

@test "once a night on three hosts, and again only if it failed" {
  example dlock-run.1 '0,20,40 3 * * *'
  printf '#!/bin/sh\necho nightly >>calls\n[ -e good ]\n' >bin/nightly
  chmod +x bin/nightly
  example=${example#'0,20,40 3 * * *  '}
  example=${example//\/usr\/local\/bin\//}
  run_example 1
  touch good
  run_example
  run_example
  is_called $'nightly\nnightly'
}

@test "a migration, and another backend without a gap" {
  example dlock-run.1 'dlock run -w 10m'
  run_busy migrate-orders
  run_example
  is_called 'migrate up'
  example dlock-run.1 'dlock run -b redis://old'
  mkdir -m 700 old new
  example=${example//redis:\/\//file:$PWD/}
  rm calls
  example=${example//\/usr\/local\/bin\//}
  run -0 --separate-stderr timeout 60 bash -c "$example"
  assert_equal "$stderr" ''
  is_called 'report '
  for place in old new; do dlock inspect -b "file:$PWD/$place" --no-heading -o KEY; done >keys
  assert_equal "$(cat keys)" $'report\nreport'
}

@test "in a cluster, and what watches it" {
  not_run dlock-run.1 'no Kubernetes here: its command is asked to explain itself' \
    'apiVersion: batch/v1' '            command:'
  command=$(sed -n 's/^ *command: \[\(.*\)\]$/\1/p' <<<"$example" | tr -d ',"')
  if built_with redis; then run -0 bash -c "${command/dlock run/dlock run --explain}"; fi
  not_run dlock-run.1 'no Prometheus here: the figure that it asks for is written' \
    '- alert: NightlyTooOld' '  annotations:'
  run -0 dlock run --metrics-file figures --key nightly -- true
  grep -q "^$(grep -o 'dlock_last[a-z_]*{key="nightly"' <<<"$example")" figures
}

@test "under systemd: what is started is a command line that dlock takes" {
  not_run dlock-run.1 'no systemd runs here: its ExecStart is asked to explain itself' \
    '[Unit]' 'ExecStart=/usr/bin/dlock run --key leader -- /usr/bin/worker --notify'
  lines_of dlock-run.1 | sed -n 's/^ExecStart=.*dlock run/dlock run --explain/p' >starts
  assert_equal "$(wc -l <starts)" 3
  run -0 sh -e starts
}

@test "what others write, and what is written here" {
  sed -n 's/^\.It .* Ta \(dlock run .*\)/\1/p' "$root/man/dlock-run.1" >lines
  assert [ "$(wc -l <lines)" -ge 4 ]
  run -0 sh -e lines
  assert_equal "$(grep -c '^c ' calls)" "$(wc -l <lines)"
}

@test "on servers: the command lines are taken; the servers are those of other tests" {
  not_run dlock-redis.7 'no server db1; a grace of ten minutes' \
    "dlock run -b 'redis://db1?restart_grace=10m'"
  if built_with redis; then run -0 bash -c "${example/dlock run/dlock run --explain}"; fi
  not_run dlock-bench.1 'no server r1; tests/program/bench.bats has these options' \
    'dlock bench -b' "  jq -e '.pass"
}

@test "rights and tables are those of the sources, which other tests use" {
  words() { sed 's/^ACL SETUSER dlock //' | tr -s ' \n' '\n\n' | grep . | sort; }
  of_sources() { grep "^ACL SETUSER dlock .*$2" "$root/backends/$1/README.md" | head -n 1 | words; }
  not_run dlock-redis.7 \
    'tests/stores/redis/acl.cpp logs in with the rights of backends/redis/README.md' \
    'ACL SETUSER' 'ACL SETUSER dlock +zcount'
  assert_equal "$(words <<<"$example")" "$(of_sources redis 'dlock:\*')"
  not_run dlock-redlock.7 'a test logs in with the rights of backends/redlock/README.md' \
    'ACL SETUSER' 'ACL SETUSER dlock +del'
  assert_equal "$(words <<<"$example")" "$(of_sources redlock 'jobs:\*')"
  tables() { # BACKEND: what the page prints from CREATE TABLE on is in its .sql files
    lines_of "dlock-$1.7" | sed -n '/^CREATE TABLE/,$p' >tables
    sed "s/^/dlock-$1.7: /" tables >>"$BATS_FILE_TMPDIR/covered"
    find "$root/backends/$1" -name "*.sql" -exec cat {} + >sources
    while IFS= read -r line; do
      grep -qxFe "${line%;}" -e "$line" -e "$line;" sources || fail "in no .sql file: $line"
    done <tables
  }
  tables mysql
  tables postgresql
  not_run dlock-postgresql.7 'names accounts of a server' \
    'CREATE ROLE dlock' 'GRANT SELECT, INSERT, UPDATE ON dlock_advisory'
  not_run dlock-etcd.7 'names a role of a cluster' 'etcdctl role add' 'etcdctl user grant-role'
  not_run dlock-backends.7 'tests/program/every_store/formats.bats' '... has layout'
}

@test "the README: the first line; each URL of the table is one that dlock takes" {
  example README.md 'dlock run --key nightly -- '
  printf '#!/bin/sh\necho "backup $*" >>calls\n' >bin/backup
  chmod +x bin/backup
  run_example
  is_called 'backup '
  example README.md 'dlock inspect'
  run_example
  assert_line --partial nightly
  example README.md 'dlock --help' 'dlock help backends'
  run_example
  assert_line --partial 'usage: dlock run '
  sed -n 's/^| `\([a-z]*:[^`]*\)` .*/\1/p' "$root/README.md" >urls
  assert_equal "$(wc -l <urls)" 7
  while IFS= read -r url; do
    if built_with "${url%%:*}"; then run -0 dlock run --explain -b "$url" --key k -- true; fi
  done <urls
}

@test "a history of one's own is judged" {
  not_run dlock-faults.7 'is a build' 'cmake -S . -B build-test' 'cmake --build'
  example dlock-faults.7 'dlock run --trace=/tmp/history' 'build-test/tests/support/history/'
  ln -s "$(dirname "$DLOCK")/.." build-test
  [ -x build-test/tests/support/history/history_check ] || skip 'history_check is not built'
  example=${example//\/tmp\//}
  run_example
  assert_line --partial '1 grants, 1 jobs, 0 faults'
  # What the page says of a lock that is taken away: the job that lost it may still run beside the
  # next one.
  mkfifo up
  dlock run --trace=history --kill-after 2s --key taken -- \
    sh -c 'trap "" TERM; echo >up; sleep 60' 3>&- &
  read -r _ <up
  dlock release --trace=history --force --yes --key taken
  run -0 dlock run --trace=history --key taken -- true
  wait $! || :
  run_example 1
  assert_line --regexp '^\| I2 .* 1 \|$'
}

@test "the README: how to build, test and install" {
  not_run README.md 'takes minutes; scripts.bats runs it with a short cmake' 'scripts/dlock'
  not_run README.md 'is what runs this test' 'scripts/test'
  for first in 'apt install' 'apt remove' 'tar -C /usr/local'; do
    not_run README.md 'needs root, and a package that scripts/package has made' "$first"
  done
  for first in scripts/package 'cmake --install build' 'cmake --build build --target uninstall'; do
    not_run README.md 'packaging.bats runs it, with a build that takes no time' "$first"
  done
  not_run README.md 'installs packages' 'scripts/deps'
  not_run README.md 'scripts.bats runs it' 'scripts/prove --help'
  not_run dlock-faults.7 'takes long; measure.comparison runs two of its tools' \
    'scripts/prove --comparison'
  not_run dlock-faults.7 'takes 20 minutes; program.runner.* run a few of its cells' \
    'scripts/prove --faults'
  not_run README.md 'scripts/check and manual.bats read the pages' 'man dlock' 'man -l'
}

@test "no example has a ttl that the default grace of Redis refuses, without a grace of its own" {
  for page in README.md dlock.1 dlock-acquire.1 dlock-redis.7 dlock-redlock.7 dlock-release.1 \
    dlock-renew.1 dlock-run.1; do
    lines_of $page | grep -E -e '--ttl' | grep -v 'restart_grace=' | sed "s/^/$page: /"
  done | grep -vE -e '--ttl[= ]([12]?[0-9]|30)s' >long || :
  assert_equal "$(cat long)" ''
  for verb in run acquire renew release; do
    "$DLOCK" $verb --help
  done | grep '^  *\(dlock\|grant\)' >lines # nor in the help
  run -1 grep -e --ttl lines
}

@test "no example is missing here" {
  # Other displays are unknown to lines_of.
  run -1 grep -nE '^\.(D1|Bd -(unfilled|filled|ragged|centered))' "$root"/man/*.[17]
  for page in README.md $(cd "$root/man" && echo *.[1-8]); do
    lines_of "$page" | sed "s/^/$page: /"
  done | sort -u >all
  assert_equal "$(comm -23 all <(sort -u "$BATS_FILE_TMPDIR/covered"))" ''
}
