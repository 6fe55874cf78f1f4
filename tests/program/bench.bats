#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# dlock bench: what it prints, what it leaves behind, and that it detects a lock that does not
# exclude.
load common

setup() {
  common_setup
  mkdir -m 700 locks
}

# Again where a busy machine left one of the short scenarios without a sample.
quick() {
  local status
  for _ in {1..9}; do
    status=0
    timeout 50 "$DLOCK" bench -d 200ms -c 4 "$@" >quick.out 2>quick.err || status=$?
    [ $status = 69 ] && grep -q 'no samples' quick.err quick.out || break
  done
  cat quick.out
  cat quick.err >&2
  return $status
}
# in_time MS COMMAND...: it succeeds, and took no longer at one of five tries.
in_time() {
  local most=$1 from
  shift
  for _ in {1..5}; do
    from=$EPOCHREALTIME
    "$@" || return
    ((${EPOCHREALTIME/[.,]/} - ${from/[.,]/} >= 1000 * most)) || return 0
  done
  fail "not within $most ms at any of five tries: $*"
}
nothing_left() { assert_equal "$(find locks -mindepth 1 -not -name .dlock)" ''; }

@test "the table of two recipes: scenarios, ratios, the verdict; nothing is left" {
  run --separate-stderr -0 quick --recipe all --scenario uncontended,handoff,shared,limit,renew
  assert_equal "$stderr" ''
  assert_line --index 0 --regexp '^dlock .* bench · 4 clients · 200ms each'
  for scenario in UNCONTENDED HANDOFF SHARED LIMIT RENEW; do
    assert_line --regexp "^$scenario: "
  done
  assert_line --regexp '^file (lease|flock) is [0-9.]+× file (lease|flock)$'
  assert_line 'file flock: no permits'
  assert_line 'file lease: nothing to renew'
  assert_line --regexp '^PASS  mutual exclusion: .* 0 overlaps'
  nothing_left
}

@test "--output csv, and a page" {
  run --separate-stderr -0 quick --output csv --html page.html
  assert_line --index 0 --regexp '^backend,recipe,scenario,'
  assert_line --index 2 --regexp '^file,lease,handoff,4,'
  run -73 --separate-stderr quick --html /nonexistent/page.html
}

@test "a lock that does not exclude is detected within a second" {
  [ -x "$DLOCK_FAKE" ] || skip 'dlock_fake is not built'
  detected() {
    run --separate-stderr -1 timeout 20 "$DLOCK_FAKE" bench -b fake:?broken=1 --scenario handoff \
      -d 30s
    assert_line --regexp '^FAIL  fake lease handoff: [0-9]+ overlaps'
    refute_line --partial 'PASS'
  }
  in_time 1000 detected
  run -1 timeout 20 "$DLOCK_FAKE" bench -b fake:?broken=1 --scenario shared -d 30s
  run -1 timeout 20 "$DLOCK_FAKE" bench -b fake:?broken=1 --scenario limit -d 30s
  run -0 timeout 20 "$DLOCK_FAKE" bench -b fake: --scenario handoff -d 200ms
}

@test "--ops ends after so many grants, --rate keeps the given rate" {
  run --separate-stderr -0 timeout 50 "$DLOCK" bench -N 500 -c 2 --scenario handoff --output json
  assert_equal "$(json 'j["runs"][0]["grants"]' <<<"$output")" 500
  run --separate-stderr -0 timeout 50 "$DLOCK" bench -N 200 --rate 100 -c 4 \
    --scenario uncontended --output json
  # Two seconds; the first or last grant may be late on a busy machine, which counts as latency.
  late='j["runs"][0]["latency_us"]["acquire"]["max"] / 1e6'
  json_is True "1.9 - $late <= j['runs'][0]['seconds'] <= 3 + $late" <<<"$output"
}

@test "with --rate, a late start counts: coordinated omission" {
  # One client, each hold of 50 ms, but a rate of 100 per second: the schedule falls behind, and the
  # delayed requests must show it.
  run --separate-stderr -0 timeout 50 "$DLOCK" bench -N 20 --rate 100 -c 1 --hold 50ms \
    --scenario uncontended --output json
  json_is True 'j["runs"][0]["latency_us"]["acquire"]["max"] > 300000' <<<"$output"
}

@test "crash: time until the next grant" {
  run --separate-stderr -0 timeout 50 "$DLOCK" bench --scenario crash --output json
  json_is True '0 < j["runs"][0]["latency_us"]["takeover"]["max"] < 4000000' <<<"$output"
  nothing_left
}

@test "a prefix with keys below it is refused, and they stay" {
  run -0 "$DLOCK" run --key mine-1 -- true
  refused 64 '--prefix' bench --prefix mine- -d 100ms
  [ -d locks/mine-1 ]
  run -0 quick --prefix other-
  assert_equal "$(ls locks)" mine-1
}

@test "Ctrl-C: prints the results so far, removes everything, dies of the signal" {
  "$DLOCK" bench -d 60s --scenario handoff \
    -P 100ms >out 2>err 3>&- &
  local pid=$!
  eventually grep -q '^progress: file lease handoff' err
  end_of "$pid" TERM
  assert_equal "$status" 143
  grep -q 'ended early by a signal' out || fail "$(<out)"
  nothing_left
}

@test "500 clients" {
  run --separate-stderr -0 timeout 55 "$DLOCK" bench -c 500 -N 50 --op-timeout 20s --ttl 120s \
    --scenario handoff --output json
  json_is '[500, 0, 0]' '[j["runs"][0][n] for n in ("clients", "errors", "overlaps")]' <<<"$output"
  nothing_left
}

@test "--repeat: the median and the range, and each part" {
  run --separate-stderr -0 quick --scenario handoff --repeat 3
  assert_line --index 0 --partial ', 3 times, median [range]'
  assert_line --regexp '^file lease +[0-9 .]+ \[[0-9 .]+-[0-9 .]+\] '
  run --separate-stderr -0 quick --scenario handoff --repeat 3 --output json
  json_is True '(
    j["pass"] and j["complete"] and len(j["runs"]) == 1 and
    sorted(j["runs"][0]["grants_per_s_rounds"])[1] == j["runs"][0]["grants_per_s"] and
    len(j["runs"][0]["grants_per_s_rounds"]) == 3 and
    j["runs"][0]["latency_us"]["handoff"]["p99"] > 0 and
    0.6 <= j["runs"][0]["seconds"] < 50)' <<<"$output"
}

@test "-P prints lines, whether there is a terminal or not" {
  run --separate-stderr -0 quick --scenario handoff -d 2s -P 100ms --output csv
  local progress='progress: file lease handoff  [0-9.]+/2\.0s  [0-9 ]+/s  err 0  overlaps 0'
  [[ $stderr =~ $progress ]] || fail "$stderr"
  [[ $stderr != *$'\r'* ]] || fail "$stderr"
  run -0 "$PTY_DRIVE" "$DLOCK" bench -d 2s -c 2 --scenario handoff -P 100ms <<'STEPS'
    expect progress: file lease handoff
    reject \e[K
    end exit 0
STEPS
}

@test "a terminal shows a line, redrawn, then removed; not with --no-progress, -q or TERM=dumb" {
  TERM=xterm run -0 "$PTY_DRIVE" "$DLOCK" bench -d 3s -c 2 --scenario handoff <<'STEPS'
    expect file lease handoff
    expect /3.0s
    expect err 0  overlaps 0
    expect HANDOFF: all clients want one key
    reject /3.0s
    end exit 0
STEPS
  local quiet
  for quiet in --no-progress -q; do
    TERM=xterm run -0 "$PTY_DRIVE" "$DLOCK" bench -d 1s -c 2 --scenario handoff "$quiet" \
      --output csv <<'STEPS'
    expect file,lease,handoff
    end exit 0
STEPS
    refute_output --partial 'connecting'
    refute_output --partial $'\e'
  done
  TERM=dumb run -0 "$PTY_DRIVE" "$DLOCK" bench -d 1s -c 2 --scenario handoff \
    --output csv <<<'end exit 0'
  refute_output --partial 'connecting'
}

@test "Ctrl-C at a terminal" {
  TERM=xterm run -0 "$PTY_DRIVE" "$DLOCK" bench -d 60s -c 2 --scenario handoff <<'STEPS'
    expect /60.0s
    type \x03
    expect ended early by a signal
    end signal 2 (INT)
STEPS
  nothing_left
}

@test "a benchmark that fails leaves no page, and the old one as it was" {
  needs_backend redis
  fails() { timeout 50 "$DLOCK" bench -b redis://127.0.0.1:1 --connect-timeout 100ms "$@"; }
  run -69 fails --html page.html
  [ ! -e page.html ]
  echo old >page.html
  run -69 fails --html page.html
  assert_equal "$(cat page.html)" old
  run -0 --separate-stderr quick --html page.html
  run head -c 15 page.html
  assert_output --partial '<!DOCTYPE html'
  refute_output --partial old
}
