#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# --once-per when the clock of the store jumps. The store is this machine: $CLOCK_SHIFT moves the
# wall clock of a process.
load common

# at SECONDS COMMAND...: with the wall clock that far ahead
at() {
  python3 - "$1" >shift <<'PYTHON'
import struct, sys
sys.stdout.buffer.write(struct.pack("<q", int(float(sys.argv[1]) * 1e9)).ljust(4096, b"\0"))
PYTHON
  shift
  # date leaks.
  ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 CLOCK_SHIFT_FILE=$PWD/shift \
    LD_PRELOAD="$(sanitizer) $CLOCK_SHIFT" "$@"
}

@test "the clock shift works" {
  run -0 at 86400 date +%s
  [ "$output" -gt $(($(date +%s) + 80000)) ]
}

@test "a start noted by a clock a year ahead blocks for one period from its discovery, not a year" {
  for period in 1h day; do
    rm -rf locks
    run -0 at 31536000 "$DLOCK" run --key k --once-per $period -- echo ran
    refused 75 "k was started in the future by the store's clock (" \
      run --key k --once-per $period -- echo ran
    assert_regex "$stderr" \
      '\((364d23h|365d) ahead\), which from now on counts as a start of now; not again'
    # From then on it counts as a start at that time.
    refused 75 'k was started' run --key k --once-per $period -- echo ran
    refute_regex "$stderr" 'in the future'
    run -0 at 90000 "$DLOCK" run --key k --once-per $period -- echo ran
    assert_output ran
  done
}

@test "never twice in a period: a recent start by a clock that was far ahead" {
  run -0 at 7200 "$DLOCK" run --key k --once-per 1h -- echo ran
  run -75 "$DLOCK" run --key k --once-per 1h -- echo ran
  run -75 at 1800 "$DLOCK" run --key k --once-per 1h -- echo ran
  run -0 at 3600 "$DLOCK" run --key k --once-per 1h -- echo ran
}

@test "a clock that was ahead: -q and -E 0 say nothing" {
  run -0 at 7200 "$DLOCK" run --key k --once-per 1h -- true
  run -0 --separate-stderr "$DLOCK" run -E 0 --key k --once-per 1h -- echo ran
  assert_equal "$output$stderr" ''
}

@test "--until-success: a start that cannot be withdrawn is said, and the lock is released" {
  # The job puts a directory in the place of the note, which cannot be removed as a file is.
  run -7 --separate-stderr timeout 20 "$DLOCK" run --key k --once-per day --until-success -- \
    sh -c 'rm locks/k/started && mkdir locks/k/started && exit 7'
  assert_equal "${#stderr_lines[@]}" 1
  assert_regex "$stderr" \
    '^dlock: k: the start could not be withdrawn \(.*\); it may count for --once-per day$'
  is_free k
}
