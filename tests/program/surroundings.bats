#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The environments that dlock is started in: cron, services, closed descriptors, full disks;
# metrics.
load common

@test "closed stdin, stdout, stderr: the job finds them closed, dlock works" {
  run -0 bash -c '"$DLOCK" run --key k -- sh -c "[ ! -e /proc/self/fd/0 ] && touch ran" <&-'
  [ -e ran ]
  run -0 bash -c '"$DLOCK" run --key k -- true >&- 2>&- <&-'
}

@test "stdout closed or full: a result not printed is an error, the command of run is unaffected" {
  for out in '>&-' '>/dev/full' '>&- <&- 2>&-' '>/dev/full 2>/dev/full'; do
    run -3 bash -c '"$DLOCK" run --key k -- sh -c "exit 3"'" $out"
    run -3 bash -c '"$DLOCK" fence --state f --token 1 -- sh -c "exit 3"'" $out"
    for verb in inspect 'inspect -J k' 'inspect --watch=20ms' \
      --version 'run --help' 'run --explain --key k -- true'; do
      run -73 timeout 20 bash -c '"$DLOCK" '"$verb $out"
    done
    run -75 bash -c '"$DLOCK" release --key k --force --yes'" $out"
    run -1 bash -c '"$DLOCK" check --key k --token 5'" $out"
    wanted=125 why='No space left on device'
    [[ $out != *'>&-'* ]] || wanted=64 why='standard output is not open for writing'
    for form in '' '--hold </dev/zero' '--keep --watch-pid $$'; do
      run -$wanted timeout 20 bash -c '"$DLOCK" acquire --key k '"$form $out"
      [[ $out == *2\>* ]] || assert_output --partial "$why"
      is_free k
    done
  done
}

@test "standard error closed or full: nothing else changes" {
  for err in '2>&-' '2>/dev/full'; do
    run -3 bash -c '"$DLOCK" run --key k -- sh -c "exit 3"'" $err"
    run -75 bash -c '"$DLOCK" release --key k --force --yes'" $err"
    run -64 bash -c '"$DLOCK" run --key'" $err"
    run -0 bash -c '"$DLOCK" inspect'" $err"
    assert_line --partial free
  done
}

@test "a full disk for status, trace, metrics: the command's status stands" {
  run -3 "$DLOCK" run --key k --status /dev/full --trace /dev/full -- sh -c 'exit 3'
  run -3 bash -c '"$DLOCK" run --key k --status 5 -- sh -c "exit 3" 5>/dev/full'
  run -3 "$DLOCK" run --key k --metrics-file /proc/no/such -- sh -c 'exit 3'
  assert_output --partial '--metrics-file'
  run -73 "$DLOCK" run --key k --status /proc/no/such -- true
}

@test "--metrics-file: counters add up, gauges are of the last run, labels are escaped" {
  "$DLOCK" run --key 'a"b\' --metrics-file m.prom -- true
  run -4 "$DLOCK" run --key 'a"b\' --metrics-file m.prom -- sh -c 'exit 4'
  "$DLOCK" acquire --key 'a"b\' >/dev/null
  run -75 "$DLOCK" run -n --key 'a"b\' --metrics-file m.prom -- true
  assert_equal "$(grep -c '^# TYPE' m.prom)" 10
  grep -qxF 'dlock_runs_total{key="a\"b\\"} 2' m.prom
  grep -qxF 'dlock_skipped_total{key="a\"b\\"} 1' m.prom
  grep -qxF 'dlock_exit_status{key="a\"b\\"} 4' m.prom
  grep -qxF 'dlock_running{key="a\"b\\"} 0' m.prom
  grep -q '^dlock_last_success_timestamp_seconds{.*} [1-9]' m.prom
  assert_equal "$(ls)" $'locks\nm.prom'
}

# value FIGURE [FILE]: of m.prom.
value() { sed -n "s/^dlock_$1{.*} //p" "${2:-m.prom}"; }

@test "--metrics-file: a running command is seen, and a skipped run leaves what the last one did" {
  "$DLOCK" run -n -E 0 --key k --metrics-file m.prom -- sh -c '
    until grep -qs "^dlock_running{.*} 1$" m.prom; do sleep 0.02; done
    cp m.prom while
    exit 5' || :
  [ "$(value running while) $(value runs_total while) $(value exit_status while)" = '1 0 ' ]
  [ "$(value running) $(value runs_total) $(value exit_status)" = '0 1 5' ]
  [ "$(value last_start_timestamp_seconds)" = "$(value last_start_timestamp_seconds while)" ]
  cp m.prom before
  "$DLOCK" acquire --key k >/dev/null
  run -0 "$DLOCK" run -n -E 0 --key k --metrics-file m.prom -- true
  assert_equal "$(value skipped_total)" 1
  for name in running exit_status last_end_timestamp_seconds last_start_timestamp_seconds \
    held_seconds runs_total; do
    assert_equal "$name $(value $name)" "$name $(value $name before)"
  done
  run -0 "$DLOCK" run -n -E 0 --key other --metrics-file first.prom -- true
  run -0 "$DLOCK" run -n -v -E 0 --key k --metrics-file new.prom -- true
  assert_line --regexp '^dlock: k is held by .*; not waiting$'
  run ! grep 'dlock_exit_status\|dlock_running\|last_end' new.prom # there was no run
}

@test "--metrics-file: eight processes at once lose no count unsaid, from the first write on" {
  for _ in {1..8}; do
    (
      for _ in {1..10}; do
        "$DLOCK" run --limit 8 --key k --metrics-file m.prom -- true 2>>said || exit
      done
    ) &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid"; done
  # On a busy machine one may get no turn in time; then it reports that.
  local unsaid locked="dlock: --metrics-file 'm.prom': not updated: others keep its .tmp locked"
  unsaid=$(grep -cvxF "$locked" said || :)
  [ "$unsaid" = 0 ] || fail "$(sort said | uniq -c)"
  assert_equal "$(($(value runs_total) + $(wc -l <said)))" 80
  assert_equal "$(ls)" $'locks\nm.prom\nsaid'
}

with_metrics() { "$DLOCK" run --key k --metrics-file m.prom -- "$@"; }

@test "--metrics-file: a killed process's temporary file does no harm and counts for nothing" {
  with_metrics true
  echo 'dlock_runs_total{key="k"} 77 and half a li' >m.prom.tmp
  chmod 600 m.prom.tmp
  run -0 with_metrics true
  assert_output ''
  assert_equal "$(value runs_total)" 2
  assert_equal "$(ls)" $'locks\nm.prom'
}

@test "--metrics-file: a process that gets no turn reports it in a bounded time, changes nothing" {
  with_metrics true
  cp m.prom before
  : >m.prom.tmp
  mkfifo held
  flock m.prom.tmp cat held 3>&- &
  holder=$!
  eventually bash -c '! flock -n m.prom.tmp true'
  run -3 timeout 20 "$DLOCK" run --key k --metrics-file m.prom -- sh -c 'exit 3'
  assert_output "dlock: --metrics-file 'm.prom': not updated: others keep its .tmp locked"
  cmp m.prom before
  : >held
  wait $holder
  with_metrics true
  assert_equal "$(value runs_total)" 2
}

@test "--metrics-file: a full disk keeps the old figures, complete, and is reported" {
  # As a full disk does: no file can grow.
  on_full_disk() {
    run -3 bash -c 'ulimit -f 0
      exec "$0" run -b fake: --key k --metrics-file m.prom -- sh -c "exit 3"' "$DLOCK_FAKE"
  }
  on_full_disk
  assert_output --regexp "^dlock: --metrics-file 'm.prom': not updated: "
  assert_equal "$(ls)" ''
  "$DLOCK_FAKE" run -b fake: --key k --metrics-file m.prom -- true
  cp m.prom before
  on_full_disk
  cmp m.prom before
  assert_equal "$(ls)" $'before\nm.prom'
}

@test "--metrics-file: what dlock cannot have written is kept, and reported" {
  head -c 2000000 /dev/zero >long
  echo mine >target
  ln -s target link
  mkfifo fifo
  mkdir dir
  for file in long link fifo dir /dev/null; do
    why='it is no regular file'
    [ $file != long ] || why='File too large'
    run -3 "$DLOCK" run --key k --metrics-file "$file" -- sh -c 'exit 3'
    assert_output "dlock: --metrics-file '$file': not updated: $why"
  done
  [ "$(cat target)" = mine ] && [ -L link ] && [ -p fifo ] && [ -c /dev/null ]
  assert_equal "$(stat -c %s long)" 2000000
  [ ! -e long.tmp ]
}

# limited OPTION VALUE ARGUMENT...: with that limit of the shell.
limited() { timeout 20 bash -c 'ulimit "$0" "$1" && shift && exec "$DLOCK" "$@"' "$@" 3>&- 4>&-; }

@test "a link of another user in a directory that others may write to is not followed" {
  [ "$(id -u)" -eq 0 ] || skip 'not root, and only root can give a link away'
  echo precious >victim
  ln -s victim own
  ln -s victim foreign
  chown -h 12001:12001 foreign
  refused 73 '--trace' run --trace foreign --key k -- true
  refused 73 '--status' run --status foreign --key k -- true
  refused 73 '--trace' inspect --trace foreign
  refused 73 '--html' bench --html foreign -N 1 --no-progress
  assert_equal "$(cat victim)" precious
  run -0 "$DLOCK" run --trace own --status /dev/stdout --key k -- true
  assert_output --partial '"event":"acquired"'
  grep -q acquire victim
}

@test "a FIFO without a reader, or a writer, named as a file: refused, at once or after a while" {
  mkfifo -m 600 fifo
  refused 73 'fifo' run --trace fifo --key k -- true
  refused 73 'fifo' inspect --trace fifo
  refused 78 'has no writer' run --config fifo --key k -- true
  refused 78 'has no writer' check --handle @fifo --key k
  refused 73 'has no reader' bench --html fifo -N 1 --no-progress
}

@test "a FIFO, named as a certificate or a key: refused" {
  needs_backend redis mysql
  mkfifo -m 600 fifo
  for option in ca cert key; do
    other=()
    [ $option = ca ] || other=(--tls-cert fifo --tls-key fifo)
    refused 78 'not a regular file' \
      inspect -b 'rediss://127.0.0.1:1' --tls-$option fifo "${other[@]}" k
    refused 78 'not a regular file' inspect -b 'mysql://127.0.0.1:1/db?tls=yes' --tls-$option fifo k
  done
}

@test "a FIFO with a writer is as good as a file" {
  h=$("$DLOCK" acquire --key k)
  run -0 timeout 20 "$DLOCK" renew --key k --config <(sleep 0.1; echo 'quiet = true') \
    --handle @<(echo "$h")
  run -75 timeout 20 "$DLOCK" renew --key k --config <(echo 'quiet = true') \
    --handle @<(echo "${h%????}0000")
  assert_output ''
}

@test "a limit on the size of files: 73 and one line; no lock is held; what needs no file works" {
  told() { # through a pipe: standard error may be a file
    set -o pipefail
    limited "$@" 2>&1 | cat
  }
  for limit in 0 1 1000; do # 1000: the first change would fit, and the next would not
    for verb in run acquire; do
      command=()
      [ $verb = acquire ] || command=(-- touch ran)
      run -73 told -f $limit $verb --key k "${command[@]}"
      [[ ${#lines[@]} -eq 1 && $output == "dlock: "*'ulimit -f'* ]] || fail "$verb, $limit: $output"
      "$DLOCK" run -n --key k -- true
    done
  done
  run -0 limited -f 0 inspect --trace trace k
  [ ! -e ran ]
}

@test "a limit on the size of files is the job's: its signal kills it" {
  run -153 limited -f 2000 run --key k -- sh -c 'exec head -c 3000000 /dev/zero >big'
}

# With 14 to 16, one more for each that dlock inherits, the lock is had when the guard runs out.
@test "out of descriptors: 69, 125 with the lock, and one line, never an endless wait" {
  ! sanitized || skip 'the sanitizers want descriptors, too'
  "$DLOCK" run --key k -- true
  for n in {5..20}; do
    for wait in -n '-w 1h'; do
      # shellcheck disable=SC2086
      run --separate-stderr limited -n "$n" run $wait --key k -- sh -c 'exit 3'
      [[ $status -eq 3 || ( ${#stderr_lines[@]} -eq 1 &&
        ( $status -eq 69 && $stderr == "dlock: "* ||
        $status -eq 125 && $stderr == "dlock: k: "*": out of descriptors "* ) ) ]] ||
        fail "run $wait, $n: $status $stderr"
    done
    if built_with redis; then
      run --separate-stderr limited -n "$n" run -n -b redis://127.0.0.1:1 --key k -- true
      [[ $status -eq 69 && ${#stderr_lines[@]} -eq 1 ]] || fail "redis, $n: $status $stderr"
    fi
    run --separate-stderr limited -n "$n" acquire --keep --watch-pid $$ --key "k$n"
    ((status == 0)) || [[ ${#stderr_lines[@]} -eq 1 && $stderr == "dlock: "* ]] ||
      fail "keep, $n: $status $stderr"
    if ((status == 0)); then "$DLOCK" release --key "k$n" --handle "$output"; fi
  done
}

@test "a small stack" {
  ! sanitized || skip 'the sanitizers want more'
  run -3 limited -s 64 run --key k -- sh -c 'exit 3'
}

@test "a job that shares no memory with its guard until its exec, as on Linux before 5.16" {
  setarch --uname-2.6 true || skip 'setarch cannot say another version'
  run -3 setarch --uname-2.6 "$DLOCK" run --key k -- sh -c 'exit 3'
  run -127 setarch --uname-2.6 "$DLOCK" run --key k -- ./absent
}

@test "no thread: a running job runs to its end; a waiter reports it, 69" {
  no_threads() {
    bash -c 'ulimit -s 4000000 && ulimit -v 3000000 && exec "$@"' no_threads timeout 20 "$DLOCK" \
      "$@"
  }
  no_threads --version >/dev/null || skip 'this build does not run in 3 GB of addresses'
  run -3 no_threads run --key k -- sh -c 'sleep 0.2; exit 3'
  run -3 no_threads run --key k -- sh -c 'sleep 1.2 & exit 3'
  assert_output --partial 'the lock is held until they end'
  is_free k
  "$DLOCK" acquire --key k
  run --separate-stderr -69 no_threads run --key k -- true
  assert_equal "${#stderr_lines[@]}" 1
  [[ $stderr == *thread* ]]
}

@test "too few processes and threads: one line says what is needed, no job runs, the lock is free" {
  ! sanitized || skip 'the sanitizers want threads, too'
  user=$((300000 + $$)) # no other test has processes of this user
  as_user() {
    setpriv --reuid $user --regid $user --clear-groups --inh-caps=+dac_override \
      --ambient-caps=+dac_override "$@"
  }
  as_user true 2>/dev/null || skip 'needs the right to be another user'
  as_user "$DLOCK" run --key k -- true
  for n in {1..6}; do
    run --separate-stderr as_user \
      bash -c 'ulimit -u "$0" && exec "$DLOCK" run --key k -- sh -c "echo ran; exit 3"' "$n"
    statuses+=("$status")
    if ((status != 3)); then
      [[ -z $output && ${#stderr_lines[@]} -eq 1 &&
        $stderr == "dlock: "*'(ulimit -u)'*'up to 6'* ]] || fail "$n: $stderr"
      as_user "$DLOCK" inspect --check k
    fi
  done
  assert_equal "${statuses[*]}" '69 125 125 3 3 3' # dlock, its guard with two threads, the command
}

@test "64 keys with the longest names" {
  key=$(printf 'é%.0s' {1..98})
  for i in {100..163}; do keys+=(--key "$i$key"); done
  run -0 timeout 20 "$DLOCK" run "${keys[@]}" -- sh -c 'echo "$DLOCK_GRANTS"'
  assert_equal "$(json 'len(j)' <<<"$output")" 64
  # With an ancestor's variables the environment may exceed what exec accepts.
  stat=$(</proc/$$/stat) stat=(${stat##*)})
  grant='{"key":"o","handle":"h1:file.lease:%032d","sequencer":"v1:file.lease:o:X:5",'
  grant+='"guard":{"pid":%d,"start":%d},"x":"%090000d"}'
  grant=$(printf "$grant" 0 $$ "${stat[19]}" 0)
  DLOCK_GRANTS="[$grant]" run --separate-stderr -126 timeout 20 "$DLOCK" run "${keys[@]}" -- true
  [[ $stderr == *'Argument list too long'* ]]
  is_free "100$key"
}

@test "/proc of another PID namespace: no job is started that could not be ended" {
  unshare --pid --fork --mount-proc true 2>/dev/null || skip 'needs the right to make namespaces'
  refused_inside() { unshare --pid --fork "$DLOCK" run --key k -- touch ran; }
  run -78 refused_inside # not 69, after which a script tries again
  assert_output --partial '/proc does not list our child processes'
  [ ! -e ran ]
  run -3 unshare --pid --fork --mount-proc "$DLOCK" run --key k -- sh -c 'exit 3'
}

@test "without /proc: acquire makes its directory, run says why it cannot" {
  unshare -m umount -l /proc 2>/dev/null || skip 'needs the right to make namespaces'
  without_proc() { unshare -m sh -c 'umount -l /proc && exec "$@"' sh "$DLOCK" "$@"; }
  run -0 without_proc acquire -b "file:$PWD/made" --key k
  run -78 without_proc run -b "file:$PWD/made" --key other -- true
  assert_output --partial '/proc does not list our child processes'
}

@test "the systemd units of dlock-run(1) are valid" {
  command -v systemd-analyze >/dev/null || skip 'no systemd-analyze'
  sed -n '/^\[Unit\]/,/^\.Ed/p' "$BATS_TEST_DIRNAME/../../man/dlock-run.1" |
    sed "s|/usr/[a-z/]*bin/[a-z]*|/bin/true|g" |
    awk '/^\[Unit\]/{n++} !/^\.Ed/{print >("unit" n ".service")}'
  [ -e unit2.service ]
  for unit in unit*.service; do
    run systemd-analyze verify --man=no "$PWD/$unit"
    refute_output --partial "$unit"
  done
}

@test "inspect --doctor: fit, and not fit" {
  case $DLOCK in "${TMPDIR:-/tmp}"/*) skip 'the build is in the directory for temporary files' ;; esac
  fit=$(mktemp -d -p "$(dirname "$DLOCK")") # not below the directory for temporary files
  export DLOCK_BACKEND=file:$fit
  trap 'rm -rf "$fit"' EXIT
  run -0 "$DLOCK" inspect --doctor
  assert_line --regexp '^note +one machine'
  assert_line --partial 'fit to keep locks'
  assert_line --regexp "^ok +directory +$fit, mode 0700, of uid $(id -u)$"
  assert_line --regexp '^ok +way to it +only its owner and root may write$'
  assert_line --regexp '^ok +clock +[a-z]'
  assert_line --regexp '^ok +free space +[0-9]+ MiB, [0-9]+ inodes$'
  chmod 2770 "$fit"
  run -0 "$DLOCK" inspect --doctor
  assert_line --regexp \
    "^ok +directory +$fit, mode 2770, of uid $(id -u), shared by the members of gid $(id -g)$"
  inspected True 'j["fit"]' --doctor
}

@test "inspect --watch without a terminal: a line per change, and the end of the reader ends it" {
  "$DLOCK" inspect --watch=20ms k >lines &
  watcher=$!
  eventually grep -q '"free"' lines
  h=$("$DLOCK" acquire --key k)
  eventually grep -q '"held"' lines
  "$DLOCK" release --key k --handle "$h"
  eventually bash -c '[ "$(wc -l <lines)" -ge 3 ]'
  kill $watcher
  wait $watcher || :
  assert_equal "$(wc -l <lines)" 3
  run -0 timeout 20 bash -c '"$DLOCK" inspect --watch=20ms k | head -n 1'
}

@test "inspect --watch at a terminal: redrawn, q ends it" {
  "$DLOCK" acquire --key k --reason seen >/dev/null
  TERM=xterm "$PTY_DRIVE" "$DLOCK" inspect \
    --watch=50ms <<<$'expect q ends\nexpect seen\nexpect seen\ntype q\nend exit 0'
}

@test "-b makes only the last part of a directory, and says so" {
  refused 73 "lock directory $PWD/typo/locks: $PWD/typo does not exist either" \
    run -q -b "file:$PWD/typo/locks" --key k -- true
  [ ! -e typo ]
  refused 73 'only the last part' acquire -q -b "file:typo/locks" --key k
  run --separate-stderr -0 "$DLOCK" run -b "file:$PWD/new" --key k -- echo ran
  assert_output ran
  assert_equal "$stderr" \
    "dlock: --backend: lock directory $PWD/new does not exist; the first lock makes it"
  run --separate-stderr -0 "$DLOCK" run -b "file:$PWD/new" --key k -- true
  assert_equal "$stderr" ''
  run --separate-stderr -0 "$DLOCK" inspect -b "file:$PWD/typo"
  assert_regex "$stderr" 'does not exist'
  [ ! -e typo ]
  run --separate-stderr -0 "$DLOCK" inspect -b "file:$PWD/typo/locks"
  assert_equal "$stderr" \
    "dlock: --backend: lock directory $PWD/typo/locks does not exist, and neither does $PWD/typo"
  refused 73 'create lock directory /proc/new: No such file or directory' \
    run -q -b file:/proc/new --key k -- true
  refused 73 "lock directory $PWD/typo: does not exist, and recipe flock makes none" \
    run -b "file:$PWD/typo?recipe=flock" --key k -- true
}

@test "a nested run on another backend warns once; on the same one it does not" {
  mkdir -m 700 one two
  run --separate-stderr -0 "$DLOCK" run -b "file:$PWD/one" --key k -- \
    "$DLOCK" run -b "file:$PWD/two" --key a --key b -- echo ran
  assert_output ran
  assert_equal "${#stderr_lines[@]}" 1
  assert_regex "$stderr" \
    "the dlock around this one holds 'k' on file://$PWD/one, and this one asks file://$PWD/two"
  run --separate-stderr -0 "$DLOCK" run -b "file:$PWD/one" --key k -- \
    "$DLOCK" run -q -b "file:$PWD/two" --key k -- true
  assert_equal "$stderr" ''
  run --separate-stderr -0 "$DLOCK" run -b "file:$PWD/one" --key k -- \
    "$DLOCK" run -b "file:$PWD/one" --key j -- true
  assert_equal "$stderr" ''
}

private_dirty() {
  # shellcheck disable=SC2086  # the second with a blank
  cat /proc/$1/smaps_rollup /proc/${2% }/smaps_rollup |
    awk '$1 == "Private_Dirty:" { kb += $2 } END { print kb }'
}

@test "while a job runs, dlock and its guard have at most a MiB of memory of their own" {
  ! sanitized || skip 'the sanitizers want more'
  hold_by_job k
  run -0 private_dirty $pid "$(</proc/$pid/task/$pid/children)"
  assert [ "$output" -le 1024 ]
  end_of $pid TERM
}
