#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Every example of the README and the manual is run here, or named with the reason why it is not. The last
# test knows of the lines that no other one has named, so the order counts.
load common

root=$BATS_TEST_DIRNAME/../..

setup_file() { : >"$BATS_FILE_TMPDIR/covered"; }

# What the examples call is in bin/, and says how it was called in the file `calls`.
setup() {
  common_setup
  cd "$BATS_TEST_TMPDIR" || return
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

# The lines of the examples of a page, or of the README.
lines_of() {
  case $1 in
    README.md) awk '/^```/ { p = !p; next } p' "$root/README.md" ;;
    *) awk '/^\.Bd -literal/ { p = 1; next } /^\.Ed/ { p = 0 } /^\.Dl / { print substr($0, 5); next } p' "$root/man/$1" ;;
  esac | sed 's/\\(dq/"/g; s/\\e/\\/g; s/^\\&//; s/\\-/-/g' | grep .
}

# example PAGE <<TEXT: TEXT is printed there, and is $example from now on.
example() {
  local line
  example=$(cat)
  while IFS= read -r line; do
    lines_of "$1" | grep -qxFe "$line" || fail "$1 has no example with the line: $line"
    printf '%s: %s\n' "$1" "$line" >>"$BATS_FILE_TMPDIR/covered"
  done < <(grep . <<<"$example")
}
# The same, with the reason why it is not run as it stands.
not_run() {
  [ -n "$2" ] && example "$1"
}
run_example() { run -"${1:-0}" timeout 60 bash -c "$example"; }
is_called() { assert_equal "$(cat calls)" "$1"; }

@test "the line for cron: a second one, while the lock is kept, is no failure and runs nothing" {
  for page in dlock.1 dlock-run.1; do
    example $page <<'X'
*/5 * * * *  /usr/bin/dlock run -n -E 0 --min-hold 1m --key report -- /usr/local/bin/report
X
  done
  example README.md <<'X'
*/5 * * * *  dlock run -n -E 0 --min-hold 1m --key report -- /usr/local/bin/report
X
  example=${example#'*/5 * * * *  '}
  example=${example//\/usr\/local\/bin\//}
  run_example
  run_example
  is_called 'report '
}

@test "one deployment after the other" {
  example dlock.1 <<'X'
dlock run -w 15m --key deploy --reason "$CI_JOB_URL" -- make deploy
X
  CI_JOB_URL=https://ci/7 run_example
  is_called 'make deploy'
}

@test "four at a time" {
  example dlock.1 <<'X'
dlock run --limit 4 --key gpu -c 'CUDA_VISIBLE_DEVICES=$DLOCK_SLOT ./train'
X
  run_example
  is_called 'train 0'
}

@test "a lock around several steps of a script" {
  example dlock.1 <<'X'
DLOCK_HANDLE=$(dlock acquire -w 10s --ttl 10m --key migrate) || exit
export DLOCK_HANDLE
trap 'dlock release --key migrate --if-held' EXIT
X
  example+=$'\ndlock inspect --check migrate || echo held >>calls'
  run_example
  is_called held
  is_free migrate
  example dlock-acquire.1 <<'X'
eval "$(dlock acquire -w 10s --ttl 10m --key migrate --output env)"
trap 'dlock release --key migrate --if-held' EXIT
./migrate --fence "$DLOCK_TOKEN"
X
  run_example
  assert_regex "$(tail -n 1 calls)" '^migrate --fence [1-9][0-9]+$'
  is_free migrate
}

@test "the same, kept by a process" {
  example dlock-acquire.1 <<'X'
handle=$(dlock acquire --keep -w 10s --key migrate) || exit
dlock run --key migrate --handle - -- ./migrate <<<"$handle"
dlock release --key migrate --handle - <<<"$handle"
X
  run_example
  is_called 'migrate '
  is_free migrate
}

@test "held while a person works, until the end of its input" {
  example dlock-acquire.1 <<'X'
dlock acquire --hold --key deploy --reason "ana looks into the outage"
X
  run_example </dev/null
  is_free deploy
}

@test "shared with flock(1)" {
  example dlock.1 <<'X'
dlock run -b 'file:///run/lock/app?recipe=flock' --key sync -- rsync -a src/ dst/
flock /run/lock/app/sync rsync -a src/ dst/
X
  mkdir -m 700 app
  example=${example//\/run\/lock/$PWD}
  run_example
  is_called $'rsync -a src/ dst/\nrsync -a src/ dst/'
}

@test "a configuration file" {
  example dlock.1 <<'X'
backend = "redis://db1"
wait = "15m"
[profile.batch]
backend = "redis://db1?restart_grace=2m"   # all clients of these keys
ttl = "2m"
quiet = true
X
  unset DLOCK_BACKEND
  echo "$example" >config.toml
  run -0 "$DLOCK" --show-config --config config.toml --profile batch
  assert_line --partial 'backend = "redis://db1?restart_grace=2m"'
  assert_line --regexp '^wait = "?15m'
}

@test "check before the step that cannot be undone" {
  example dlock-check.1 <<'X'
dlock check "$DLOCK_SEQUENCER" && mv out.tmp out
X
  touch out.tmp
  run -0 dlock run --key k -c "$example"
  assert [ -e out ]
}

@test "a writer with a token" {
  example dlock-run.1 <<'X'
dlock run --key export -c 'curl -H "X-Token: $DLOCK_TOKEN" -T out.csv https://store/out.csv'
X
  run_example
  assert_regex "$(cat calls)" '^curl -H X-Token: [1-9][0-9]+ -T out.csv https://store/out.csv$'
}

@test "a fence on the storage host" {
  example dlock-fence.1 <<'X'
#!/bin/sh
exec dlock fence --state /srv/site/.fence --token "$1" -- \
  sh -c 'cat >/srv/site/new && mv /srv/site/new /srv/site/index.html'
X
  mkdir site
  echo "${example//\/srv/$PWD}" >bin/publish
  chmod +x bin/publish
  not_run dlock-fence.1 'prompts, and tokens of another day' <<'X'
$ cat /usr/local/bin/publish
B$ dlock run --key site -c 'render | ssh storage publish "$DLOCK_TOKEN"'
A$ dlock run --key site -c 'render | ssh storage publish "$DLOCK_TOKEN"'
dlock: token 41 is older than 42, the newest that '/srv/site/.fence' has seen; the command was not run
X
  run -0 dlock run --key site -c 'render | ssh storage publish "$DLOCK_TOKEN"'
  assert_equal "$(cat site/index.html)" page
  run -123 publish 41 </dev/null
  assert_output --regexp "^dlock: token 41 is older than [0-9]+, the newest that '$PWD/site/.fence' has seen; the command was not run$"
}

@test "looking, renewing, forcing" {
  for example in 'dlock inspect --held -o +MODE' 'dlock inspect -J nightly'; do
    example dlock-inspect.1 <<<"$example"
    dlock run --key nightly -c "$example" >out
    assert [ -s out ]
  done
  example dlock-renew.1 <<'X'
dlock renew --key migrate --ttl 10m
X
  DLOCK_HANDLE=$(dlock acquire --key migrate) run_example
  example dlock-release.1 <<'X'
dlock inspect deploy
dlock release --key deploy --force --token 1766534400000000
X
  dlock acquire --key deploy
  token=$(dlock inspect -J deploy | json 'j["holders"][0]["token"] if "holders" in j else j["keys"][0]["holders"][0]["token"]')
  example=${example/1766534400000000/$token}
  run_example
  is_free deploy
}

@test "under systemd: what is started is a command line that dlock takes" {
  not_run dlock-run.1 'no systemd runs here: its ExecStart is asked to explain itself' <<'X'
[Unit]
Description=The one worker
[Service]
Type=exec
ExecStart=/usr/bin/dlock run --key leader -- /usr/bin/worker
Restart=always
RestartForceExitStatus=123
Description=The report of one host
Type=oneshot
ExecStart=/usr/bin/dlock run -n --once-per 1h --key report -- /usr/local/bin/report
SuccessExitStatus=75
X
  lines_of dlock-run.1 | sed -n 's/^ExecStart=.*dlock run/dlock run --explain/p' >starts
  assert_equal "$(wc -l <starts)" 2
  run -0 sh -e starts
}

@test "what others write, and what is written here" {
  sed -n 's/^\.It .* Ta \(dlock run .*\)/\1/p' "$root/man/dlock-run.1" >lines
  assert [ "$(wc -l <lines)" -ge 4 ]
  run -0 sh -e lines
  assert_equal "$(grep -c '^c ' calls)" "$(wc -l <lines)"
}

@test "on servers: the command lines are taken; the servers are those of other tests" {
  not_run dlock-backends.7 'no server db1; a grace of ten minutes' <<'X'
dlock run -b 'redis://db1?restart_grace=10m' --ttl 10m --key nightly -- ./job
X
  if built_with redis; then run -0 bash -c "${example/dlock run/dlock run --explain}"; fi
  not_run dlock-bench.1 'no server r1; tests/cli/bench.bats has these options' <<'X'
dlock bench -b redis://r1 -b file:/var/tmp/b --recipe all -d 10s
dlock bench -b redis://r1 --repeat 5 --output json \
  --fail-if 'handoff.handoff.p99>20ms' --fail-if 'errors>0'
X
}

@test "rights and tables are those of the sources, which other tests use" {
  not_run dlock-backends.7 'tests/faults/redis/acl.cpp logs in with the rights of backends/redis/README.md' <<'X'
ACL SETUSER dlock on >PASSWORD resetkeys resetchannels -@all
  ~dlock:* +info +config|get +eval +evalsha +blpop +wait +scan
  +time +hgetall +hmget +hset +hdel +pexpire +del +rpush +zadd
  +zrem +zremrangebyscore +zrange +zrangebyscore
  +zrevrangebyscore +zscore +zcard +zcount +zrank
X
  words() { tr -s ' \n' '\n\n' | grep . | sort; }
  assert_equal "$(words <<<"$example")" "$(grep '^ACL SETUSER dlock .*dlock:\*' "$root/backends/redis/README.md" | head -n 1 | words)"
  lines_of dlock-backends.7 | sed -n '/^CREATE TABLE/,/ENGINE=/p' >tables
  not_run dlock-backends.7 'the same text as in the .sql files of backends/mysql' <tables
  find "$root/backends/mysql" -name "*.sql" -exec cat {} + >sources
  while IFS= read -r line; do grep -qxFe "${line%;}" -e "$line" -e "$line;" sources || fail "in no .sql file: $line"; done <tables
  not_run dlock-backends.7 'tests/cli/stores/formats.bats' <<'X'
... has layout 2, and this dlock knows layout 1 (a newer dlock wrote it: ...)
X
}

@test "the README: how to build, test and install" {
  not_run README.md 'installs packages and builds for minutes; scripts.bats runs it with a cmake that does not' <<'X'
scripts/dlock run --key demo -- echo "I hold the lock"
X
  not_run README.md 'is what runs this test' <<'X'
scripts/test
X
  not_run README.md 'needs root, and a package that scripts/package has made' <<'X'
apt install ./dlock_0.1.0_amd64.deb
tar -C /usr/local --strip-components=1 -xf dlock-0.1.0-linux-x86_64.tar.gz
X
}

@test "no example is missing here" {
  for page in README.md dlock.1 dlock-acquire.1 dlock-backends.7 dlock-bench.1 dlock-check.1 dlock-fence.1 dlock-inspect.1 \
    dlock-release.1 dlock-renew.1 dlock-run.1; do
    assert [ "$page" = README.md -o -e "$root/man/$page" ]
    lines_of $page | sed "s/^/$page: /"
  done | sort -u >all
  assert_equal "$(find "$root/man" -name '*.[1-8]' | wc -l)" 10
  assert_equal "$(comm -23 all <(sort -u "$BATS_FILE_TMPDIR/covered"))" ''
}
