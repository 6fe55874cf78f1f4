#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The completions that the build generates, run by bash.
load common

setup() {
  common_setup
  generate=$BATS_TEST_DIRNAME/../../scripts/completions/generate
}

@test "completions: schemes, the recipes of one backend, and keys of a local store only" {
  "$generate" "$DLOCK" "$BATS_TEST_TMPDIR/completions"
  # shellcheck source=/dev/null
  source "$BATS_TEST_TMPDIR/completions/dlock"
  compopt() { :; } # of bash while it completes
  completed() { # WORD...: what the last one can become; bash breaks words at = and :
    COMP_WORDS=("$DLOCK" "$@") COMP_CWORD=$# COMP_LINE="dlock $*"
    _dlock || :
    echo "${COMPREPLY[*]}"
  }
  assert_equal "$(completed he)" help
  assert_equal "$(completed help rel)" release
  assert_equal "$(completed run -b fil)" file:
  assert_equal "$(completed run -b file:/x --recipe '')" 'lease flock'
  assert_equal "$(completed run --recipe = fl)" flock
  assert_equal "$(completed run --desc)" --descendants

  # shellcheck disable=SC2016  # a key that a shell would expand
  for key in nightly 'no$(touch expanded)' other; do "$DLOCK" acquire --key "$key" >/dev/null; done
  cd "$BATS_TEST_TMPDIR" || return
  assert_equal "$(completed release --key ni)" nightly
  assert_equal "$(completed inspect ot)" other
  assert_equal "$(completed release --key no)" 'no\$\(touch\ expanded\)'
  [ ! -e expanded ]
  assert_equal "$(completed release -b redis://127.0.0.1:1 --key '')" ''
}
