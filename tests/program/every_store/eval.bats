#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The examples of `acquire` in a script, as the manual prints them, on each store and in each shell
# that is here: with a free key, and with one that another holds.
load stores

# The lines of PAGE from the one that takes the lock to the one that gives it back.
example_of() {
  sed -n '/^\.Bd -literal/,/^\.Ed/p' "$BATS_TEST_DIRNAME/../../../man/$1" |
    sed -n '/^grant=\$(dlock acquire/,/^trap /p' | sed 's/\\-/-/g'
}
shells() {
  local shell
  for shell in dash 'bash --posix' bash ksh mksh zsh 'busybox sh'; do
    ! command -v "${shell% *}" >/dev/null || echo "$shell"
  done
}

@test "free: the steps run with the lock, and it is given back; busy: none of them runs" {
  mkdir bin
  ln -s "$DLOCK" bin/dlock
  PATH=$PWD/bin:$PATH
  for page in dlock.1 dlock-acquire.1; do
    example=$(example_of $page)
    assert_equal "$page: $(grep -c . <<<"$example")" "$page: 3"
    assert_regex "$example" '--key migrate'
    printf '%s\n' "$example" 'echo "with $DLOCK_TOKEN"' \
      'dlock check migrate --token "$DLOCK_TOKEN"' >"$page.sh"
    sed 's/-w 10s/-w 200ms/' "$page.sh" >"$page.busy.sh"
  done
  while read -r shell; do
    for page in dlock.1 dlock-acquire.1; do
      run -0 timeout 60 $shell "$page.sh"
      assert_regex "$shell: $output" 'with [1-9][0-9]*$'
      run -0 "$DLOCK" inspect --check migrate
    done
  done < <(shells)
  "$DLOCK" acquire --keep --watch-pid $$ --key migrate >handle
  while read -r shell; do
    for page in dlock.1 dlock-acquire.1; do
      run --separate-stderr timeout 60 $shell "$page.busy.sh"
      assert_equal "$shell: $status $output" "$shell: 75 "
    done
    # The old form stops with set -e, or where its status is asked for.
    run --separate-stderr timeout 60 $shell \
      -c 'eval "$(dlock acquire -n --key migrate --output env)" || exit; echo on'
    assert_equal "$shell: $status $output" "$shell: 75 "
    run --separate-stderr timeout 60 $shell \
      -c 'set -e; eval "$(dlock acquire -n --key migrate --output env)"; echo on'
    assert_equal "$shell: $status $output" "$shell: 75 "
  done < <(shells)
  run -0 "$DLOCK" release migrate --handle @handle
}
