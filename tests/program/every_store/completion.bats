#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Bash completes keys of the store at hand, whatever it is.
load stores

@test "the keys of the store that a variable names" {
  "$BATS_TEST_DIRNAME/../../../scripts/completions/generate" "$DLOCK" made
  # shellcheck source=/dev/null
  source made/dlock
  # shellcheck disable=SC2034  # a loaded machine may need more than the second of a waiting user
  _dlock_patience=20s
  "$DLOCK" acquire --keep --watch-pid $$ nightly >handle
  COMP_WORDS=("$DLOCK" release ni) COMP_CWORD=2 COMP_LINE='dlock release ni'
  _dlock
  # Redlock's keys have the names of other programs, and only with a prefix they can be listed.
  assert_equal "${COMPREPLY[*]}" nightly
  "$DLOCK" release nightly --handle @handle
}
