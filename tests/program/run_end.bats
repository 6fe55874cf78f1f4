#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# How a command under `dlock run` ends.
load run_helpers

# A command that ignores TERM, reports it, and lives.
stubborn=(sh -c 'trap "" TERM INT QUIT; echo up; while :; do sleep 1; done')

@test "TERM, then KILL after --kill-after, at once with 0: the whole tree" {
  for after in 300ms 0; do
    start $after on_file -k $after -- "${stubborn[@]}"
    said $after up
    send $after TERM
    ended $after 'signal 9 (KILL)'
    assert_equal "$(events $after)" 'acquired kill job_dead released exit'
    key_is_free
  done
}

@test "a second ending signal escalates; the same one within 100 ms counts once" {
  start it on_file -k 60s -- "${stubborn[@]}"
  said it up
  kill -s TERM "$(pid_of it)" "$(pid_of it)" # by one command: two may be more than 100 ms apart
  run ended_within_a_second it
  assert_failure
  send it INT
  ended it 'signal 9 (KILL)'
  # The same signal, later.
  start again on_file -k 60s -- "$SIGNAL_JOB" print
  said again up
  send again INT
  said again 'got 2'
  run ended_within_a_second again
  assert_failure
  send again INT
  ended again 'signal 9 (KILL)'
}
ended_within_a_second() {
  timeout 1 sh -c 'until [ -s "$1" ]; do sleep 0.05; done' sh "$dir/$1.end"
}

@test "--max-run: 124, with TERM first and KILL after --kill-after" {
  start polite on_file --max-run 300ms -- sleep 60
  ended polite 'exit 124'
  # Ignored from its start: the shell of the command might not come to its trap within 300 ms.
  (trap '' TERM && start it on_file --max-run 300ms -k 300ms -- "${stubborn[@]}")
  ended it 'exit 124'
  assert_equal "$(events it)" 'acquired term kill job_dead released exit'
  run -3 on_file --max-run 20s -- sh -c 'exit 3'
  run -3 on_file --max-run 0 -- sh -c 'sleep 0.2; exit 3'
}

@test "--signal: the signal of a request to end" {
  start it on_file --max-run 300ms --signal USR1 -- "$SIGNAL_JOB" exit 9
  ended it 'exit 124'
  # Pending until the command takes it, should that be later than 300 ms.
  before=(env --block-signal=USR2)
  start number on_file --max-run 300ms --signal 12 -- "$SIGNAL_JOB" print
  said number 'got 12'
  send number TERM
  ended number
}

@test "--min-hold on a lease: exits at once, the lease is set to the remainder" {
  start it on_lease --min-hold 20s --ttl 5s -- sh -c 'exit 5'
  ended it 'exit 5'
  assert_equal "$(events it)" 'acquired job_dead detached exit'
}

@test "--min-hold where the lock cannot outlive dlock: dlock goes on holding, a signal ends that" {
  start it on_lease --recipe process --min-hold 60s -- sh -c 'exit 5'
  event it job_dead
  says it '--min-hold'
  send it TERM
  ended it 'exit 5'
  assert_equal "$(events it)" 'acquired job_dead released exit'
}

@test "--descendants wait: a line after a second names pids and option; held to their end" {
  start it on_file -- \
    sh -c 'setsid sh -c "echo \$\$ >pid; until [ -e go ]; do sleep 0.05; done" & exit 5'
  says it '--descendants'
  run cat it.err
  assert_output --regexp "^dlock: k: .*[ :]$(cat pid)[ ;,].*--descendants.*kill"
  assert_equal "${#lines[@]}" 1
  run -75 on_file -n -- true
  touch go
  ended it 'exit 5'
  key_is_free
}

@test "--descendants kill: TERM, then KILL after --kill-after, and the command's status" {
  start it on_file --descendants kill -k 300ms -- sh -c 'setsid sleep 60 & exit 5'
  ended it 'exit 5'
  start hard on_file --descendants kill -k 300ms -- \
    sh -c 'setsid sh -c "trap \"\" TERM; echo \$\$ >hard; while :; do sleep 1; done" &
      until [ -s hard ]; do sleep 0.02; done; exit 5'
  ended hard 'exit 5'
  assert_regex "$(events hard)" 'kill job_dead released exit$'
  run ! kill -0 "$(cat hard)"
  key_is_free
}

@test "signals during the wait for descendants reach them" {
  start it on_file -- \
    sh -c 'setsid sh -c "trap \"echo bye >bye; exit\" USR1; echo \$\$ >pid
      while :; do sleep 0.05; done" & exit 5'
  says it '--descendants'
  send it USR1
  ended it 'exit 5'
  assert_equal "$(cat bye)" bye
}

@test "the lock is lost: 123, TERM to the command, and no release" {
  faults=lost_after=0
  # Pending until the command takes it, should that be later than the loss.
  before=(env --block-signal=TERM)
  start it on_lease --ttl 6s -- "$SIGNAL_JOB" print
  ended it 'exit 123'
  assert_equal "$(cat it.out)" $'up\ngot 15'
  assert_regex "$(events it)" '^acquired (lost term|term lost) job_dead exit$'
  run cat it.err
  assert_output --partial 'the lock is lost'
}

@test "--on-lost exec: the command runs beside the job, with its variables; the job goes on: 123" {
  faults=lost_after=0
  start it on_lease --ttl 2s --on-lost 'exec:echo "$DLOCK_KEY $DLOCK_TOKEN" >helper' -- \
    sh -c 'echo "$DLOCK_KEY $DLOCK_TOKEN" >job; until [ -s helper ]; do sleep 0.02; done; exit 5'
  ended it 'exit 123'
  [ -s job ] && cmp job helper
}

@test "--on-lost exec: a command that does not end is killed after --ttl" {
  faults=lost_after=0
  start it on_lease --ttl 2s --on-lost 'exec:trap "" TERM HUP; echo $$ >helper; sleep 600' -- \
    sh -c 'until [ -s helper ]; do sleep 0.02; done; exit 5'
  ended it 'exit 123'
  run ! kill -0 "$(cat helper)"
}

@test "--on-lost exec: a command that does not end cannot delay the kill of the job" {
  faults=lost_after=0
  start it on_lease --ttl 12s -k 300ms \
    --on-lost 'exec:trap "" TERM; echo $$ >helper; sleep 600' -- \
    sh -c 'trap "" TERM; echo $$ >job; while :; do sleep 1; done'
  event it lost
  until_true 'the helper' test -s helper
  send it TERM
  ended it 'exit 123'
  run ! kill -0 "$(cat job)"
  run ! kill -0 "$(cat helper)"
}

@test "--on-lost signal: the job gets it, and goes on: 123" {
  faults=lost_after=0
  start it on_lease --ttl 2s --on-lost signal:USR1 -- \
    sh -c 'trap "echo usr1 >got" USR1; until [ -s got ]; do sleep 0.02; done; sleep 0.1; exit 5'
  ended it 'exit 123'
}

@test "renewals fail: reported once, and again when they work" {
  faults=renew_fails_after=1
  start it on_lease --ttl 2s -- sleep 60
  ended it 'exit 123'
  assert_regex "$(events it)" \
    '^acquired renewed renew_failed jeopardy( renew_failed| term| lost)* job_dead exit$'
  assert_regex "$(events it | sed 's/ renew_failed//g')" \
    '^acquired renewed jeopardy (term lost|lost term) job_dead exit$'
  assert_equal "$(grep -c 'cannot renew' it.err)" 1
}

@test "a release that fails or hangs: warning, event, the command's status, in a bounded time" {
  faults=hang_release=1
  start it on_lease --ttl 3s -- sh -c 'exit 5'
  ended it 'exit 5'
  assert_equal "$(events it)" 'acquired job_dead not_released exit'
  run cat it.err
  assert_output --regexp '^dlock: k: not released'
  faults=lose=release
  start lost on_lease --ttl 3s -- sh -c 'exit 5'
  ended lost 'exit 5'
}

@test "a lost reply and a slow store have no effect" {
  for faults in lose=renew drip=100ms grant_after=300ms; do
    start "it$faults" on_lease --ttl 3s -- \
      sh -c 'until [ -e "go$0" ]; do sleep 0.05; done; exit 5' "$faults"
    event "it$faults" renewed
    touch "go$faults"
    ended "it$faults" 'exit 5'
  done
}

@test "file: a forced release ends the command with 123" {
  start it on_file -k 300ms -- sleep 60
  event it acquired
  run -0 "$DLOCK" release -b "file:$dir/locks" --key k --force --yes
  ended it 'exit 123'
}

@test "dlock and its guard both killed: the command dies with them" {
  start it on_lease -- sh -c 'echo $$ >pid; echo up; exec sleep 60'
  said it up
  kill -9 "$(guard_of it)" "$(pid_of it)"
  until_true 'the end of the command' sh -c '! kill -0 "$(cat pid)"'
}

# The directory of cgroups, $cgroups, with that of a run that goes on, named first in $in_use.
use_a_cgroup() {
  cgroups=$(findmnt -n -t cgroup2 -o TARGET | head -n 1)$(sed -n 's/^0:://p' /proc/self/cgroup)
  [ -w "$cgroups" ] && [ -e "$cgroups/cgroup.procs" ] || skip 'no cgroup v2 that may be written'
  start other on_lease -- sh -c 'echo up; exec sleep 60'
  said other up
  in_use=("$(cgroup_of other)")
  [ -e "${in_use[0]}" ] || skip 'dlock makes no cgroup here'
}
cgroup_of() {
  echo "$cgroups/dlock-$(guard_of "$1" | tr -d ' ')-$(stat -L -c %i /proc/self/ns/pid)"
}

@test "both killed: the empty cgroup of the job is removed by the next run, those in use stay" {
  use_a_cgroup
  start it on_file -- sh -c 'echo up; exec sleep 60'
  said it up
  guard=$(guard_of it) empty=$(cgroup_of it)
  [ -e "$empty" ]
  # shellcheck disable=SC2086  # with a blank
  kill -9 $guard "$(pid_of it)"
  until_true 'the guard is gone' sh -c '! kill -0 $1' sh "$guard"
  on_file -- true
  [ ! -e "$empty" ]
  [ -e "${in_use[0]}" ]
  send other TERM
  ended other
}

@test "empty cgroups of other PID namespaces, as of killed containers, are removed, however many" {
  local n space
  use_a_cgroup
  space=${in_use[0]##*-}
  for n in {101..200}; do mkdir "$cgroups/dlock-$n-$$"; done
  mkdir "$cgroups/dlock-of-$$" # not dlock's
  # As of guards that live.
  for n in {1..100}; do
    DLOCK_TEST_RUN=$BATS_TEST_TMPDIR sleep 600 3>&- &
    mkdir "$cgroups/dlock-$!-$space" && in_use+=("$cgroups/dlock-$!-$space")
  done
  on_file -- true
  local found=("$cgroups/dlock-"*"-$$") kept=()
  for n in "${in_use[@]}"; do [ ! -e "$n" ] || kept+=("$n"); done
  rmdir "$cgroups/dlock-"*"-$$" "${in_use[@]:1}" || :
  assert_equal "${found[*]}" "$cgroups/dlock-of-$$"
  assert_equal "${kept[*]}" "${in_use[*]}"
  send other TERM
  ended other
}

@test "a guard that is killed before the job starts leaves no cgroup" {
  start holder on_file -- sleep 60
  event holder acquired
  run python3 - "$DLOCK" "file:$dir/locks" <<'PYTHON'
import glob, os, signal, subprocess, sys, time
caught = 0
for _ in range(50):  # the guard removes its cgroup after 50 ms
    p = subprocess.Popen([sys.argv[1], "run", "-b", sys.argv[2], "--key", "k", "--", "true"],
                         stderr=subprocess.DEVNULL)
    guard = ""
    while not guard and p.poll() is None:
        guard = open(f"/proc/{p.pid}/task/{p.pid}/children").read().strip()
    made = []
    end = time.monotonic() + 0.03
    while not made and time.monotonic() < end:
        made = glob.glob(f"/sys/fs/cgroup/**/dlock-{guard}-*")
        made += glob.glob(f"/sys/fs/cgroup/dlock-{guard}-*")
    os.kill(int(guard), signal.SIGKILL)
    if p.wait(20) != 69: sys.exit(f"status {p.returncode}")
    left = [m for m in made if os.path.exists(m)]
    if left: sys.exit(f"left: {left}")
    caught += bool(made)
    if caught == 3: break
print("caught", caught)
PYTHON
  assert_success
  [ "$output" != 'caught 0' ] || skip 'no cgroup of version 2 to write to here'
  send holder TERM
  ended holder
}
