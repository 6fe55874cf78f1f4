#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Historical recipes warn once per process, unless -q.

load common

setup() {
  common_setup
  needs_backend redis
}

@test "a legacy recipe states its weakness in one line" {
  for recipe in setnx-expire getset; do
    run --separate-stderr -69 "$DLOCK" inspect -b redis://127.0.0.1:1 --recipe "$recipe" \
      --connect-timeout 100ms k
    assert_equal "$(grep -c "^dlock: redis, recipe $recipe: " <<<"$stderr")" 1
    run --separate-stderr -69 "$DLOCK" inspect -q -b redis://127.0.0.1:1 --recipe "$recipe" \
      --connect-timeout 100ms k
    refute grep -q "recipe $recipe: " <<<"$stderr"
  done
}

@test "the other recipes print no warning" {
  for recipe in fair set; do
    run --separate-stderr -69 "$DLOCK" inspect -b redis://127.0.0.1:1 --recipe "$recipe" \
      --connect-timeout 100ms k
    refute grep -q "recipe $recipe: " <<<"$stderr"
  done
}
