#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Invalid command lines and variables: one clear line and the right status, and no lock is taken.
# All but those that need a shell, or the fake backend, are rows of pure/cli/command_line_test.
load common

teardown() { [ ! -e "$BATS_TEST_TMPDIR/locks/k" ]; } # no refused command may have reached the store

@test "no command" {
  run --separate-stderr -64 "$DLOCK"
  assert_output ''
  assert_regex "$stderr" '^usage: dlock run '
}

@test "times that do not fit name the options and the values that would fit" {
  # `file` has no lease to fit into unless it is detached; the fake backend's does.
  [ -x "$DLOCK_FAKE" ] || skip 'dlock_fake is not built'
  DLOCK=$DLOCK_FAKE
  refused 64 '--kill-after' run -b fake: --key k --ttl 3s --kill-after 4s -- true
  refused 64 '?short_ttl=yes' run -b fake: --key k --ttl 1999ms -- true
  refused 64 '?short_ttl=yes' run -b 'fake:?short_ttl=no' --key k --ttl 1999ms -- true
  "$DLOCK" run -b fake: --key k --ttl 2s -- true
  "$DLOCK" run -b 'fake:?short_ttl=yes' --key k --ttl 1999ms -- true
  DLOCK_TTL=1s refused 78 'DLOCK_TTL' run -b fake: --key k -- true
}

@test "zookeeper: a lock-delay that leaves too little of the ttl names the longest one that fits" {
  needs_backend zookeeper
  refused 64 '?tick=' run -b zookeeper://h --key k --ttl 6s --lock-delay 30s -- true
  longest=$(sed -n 's/.*use up to \([^,]*\),.*/\1/p' <<<"$stderr")
  "$DLOCK" run --explain -b zookeeper://h --key k --ttl 6s --lock-delay "$longest" -- true
}

@test "a handle of standard input that is none, or closed, is not repeated" {
  refused 64 '--handle -: standard input: ' release --key k --handle - <<<secret
  [[ $stderr != *secret* ]]
  run -64 timeout 20 bash -c '"$DLOCK" release --key k --handle - <&-'
  assert_output --partial 'cannot read standard input'
}

@test "fence has no backend, and no variable of one is judged" {
  for name in DLOCK_URL DLOCK_HOST; do
    env $name=redis://h "$DLOCK" fence --state state --token 1 -- true
  done
}

@test "a historical recipe states its weakness in one line, unless -q; the others say nothing" {
  needs_backend redis
  for row in setnx-expire:1 getset:1 'setnx-expire -q:0' 'getset -q:0' fair:0 set:0; do
    # shellcheck disable=SC2086
    run --separate-stderr -69 "$DLOCK" inspect -b redis://127.0.0.1:1 --connect-timeout 100ms k \
      --recipe ${row%:*}
    assert_equal "${row%:*}:$(grep -c '^dlock: redis, recipe [a-z-]*: ' <<<"$stderr")" "$row"
  done
}
