#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The help texts. (manual.bats compares them with the pages.)
load common

commands='run acquire renew release check fence inspect bench config'

options_of() {
  "$DLOCK" "$1" "${2:---help=all}" | sed -n 's/^  *\(-.,\)\{0,1\} *--\([a-z-]*\).*/\2/p' | sort |
    tr '\n' ' '
}

@test "--help shows what is needed every day and an example, --help=all the rest" {
  for command in $commands; do
    assert_equal "$(comm -13 <(options_of "$command" | tr ' ' '\n') <(options_of "$command" --help |
      tr ' ' '\n'))" ''
    run --separate-stderr -0 "$DLOCK" "$command" --help
    assert_equal "$stderr" ''
    assert_line --index 0 --regexp "^usage: dlock $command "
    assert_line --regexp '^Example:$'
    assert_line --regexp "^dlock $command --help=all lists all [0-9]+ options"
    refute_line --regexp '^Environment'
    run -0 "$DLOCK" "$command" -q --help
    for all in '' =all; do # fits a terminal
      assert_equal "$("$DLOCK" "$command" --help$all | grep -v ^usage | awk 'length > 80')" ''
    done
  done
  run options_of run --help
  [ "$(wc -w <<<"$output")" -le 22 ]
  run -0 "$DLOCK" run --help
  assert_line --regexp '^  0 3 \* \* \*  dlock run .* --once-per day .* -- '
  assert_line --partial "all $(options_of run | wc -w) options"
  refused 64 "--help: 'some' is not all" run --help=some
}

@test "dlock --help lists the commands and the exit statuses" {
  run --separate-stderr -0 "$DLOCK" --help
  for command in $commands; do assert_line --regexp "^  $command "; done
  for status in 0 1 64 69 70 73 75 77 78 123 124 125 126 127; do
    assert_line --regexp "^  $status "
  done
  assert_equal "$stderr" ''
}

@test "dlock --version: the version, the backends, their recipes, the default" {
  run --separate-stderr -0 "$DLOCK" --version
  assert_line --index 0 --regexp '^dlock [0-9]+\.[0-9]+\.[0-9]+$'
  assert_line --regexp '^file: lease \(default\), flock$'
  assert_line --regexp \
    '^uses .*fmt [0-9.]+, nlohmann-json [0-9.]+, toml\+\+ [0-9.]+, CLI11 [0-9.]+, glibc [0-9.]+$'
  if built_with redis; then assert_line --regexp '^uses hiredis [0-9.]+, OpenSSL [0-9.a-z]+, '; fi
  assert_equal "$stderr" ''
}

@test "--explain prints on stdout, runs nothing and locks nothing" {
  run --separate-stderr -0 "$DLOCK" run --explain --key k --min-hold 1m --max-run 2h \
    --lock-delay 3 -- touch ran
  assert_equal "$stderr" ''
  [ ! -e ran ]
  [ ! -e locks/k ]
  assert_line --regexp "^lock +k \(exclusive\) in .*$BATS_TEST_TMPDIR/locks.*, file recipe lease$"
  assert_line --regexp '^renewed +never: .* there is no deadline$'
  assert_line --regexp '^longest run +2h'
  assert_line --regexp '^shortest hold +1m'
  assert_line --regexp '^lock-delay +3s'
  assert_line --regexp '^weakness +.'
}

@test "--explain of a lease: the times add up" {
  [ -x "$DLOCK_FAKE" ] || skip 'dlock_fake is not built'
  run -0 "$DLOCK_FAKE" run -b fake: --explain --key k --ttl 10s --kill-after 2s --op-timeout 1s
  # proven 9.898s, margin 500ms
  assert_line --regexp '^renewed +every 3\.[23][0-9]*s, each try at most 1s$'
  local signals='end signal at 7\.[34][0-9]*s, KILL at 9\.[34][0-9]*s'
  local lease='the lease ends at 9\.[89][0-9]*s here, 10s there'
  assert_line --regexp "^if the store is gone +from t=0: $signals; $lease\$"
}
