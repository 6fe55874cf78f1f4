#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The completions that the build generates, run by bash.
load common

generate=$BATS_TEST_DIRNAME/../../scripts/completions/generate

@test "completions: schemes, the recipes of one backend, keys, profiles and files" {
  "$generate" "$DLOCK" completions
  # shellcheck source=/dev/null
  source completions/dlock
  compopt() { echo "$*" >>options; } # of bash while it completes
  completed() { # WORD...: what the last one can become; bash breaks words at = and :
    COMP_WORDS=("$DLOCK" "$@") COMP_CWORD=$# COMP_LINE="dlock $*"
    _dlock || :
    echo "${COMPREPLY[*]}"
  }
  assert_equal "$(completed he)" help
  assert_equal "$(completed help rel)" release
  assert_equal "$(completed help redi)" redis
  assert_equal "$(completed run -b fil)" file:
  assert_equal "$(completed run -b file:/x --recipe '')" 'lease flock'
  assert_equal "$(completed run --recipe = fl)" flock
  assert_equal "$(completed run --desc)" --descendants

  # shellcheck disable=SC2016  # a key that a shell would expand
  for key in nightly 'no$(touch expanded)' other; do "$DLOCK" acquire --key "$key" >/dev/null; done
  assert_equal "$(completed release --key ni)" nightly
  for verb in inspect acquire renew release check; do
    assert_equal "$(completed $verb ot)" other
  done
  assert_equal "$(completed run ot)" ''
  assert_equal "$(completed release --key no)" 'no\$\(touch\ expanded\)'
  [ ! -e expanded ]
  assert_equal "$(completed release -b redis://127.0.0.1:1 --key '')" ''
  # keys of the store that the line names
  "$DLOCK" acquire -b "file:$PWD/elsewhere" --key far >/dev/null 2>&1
  assert_equal "$(completed release -b "file:$PWD/elsewhere" --key '')" far
  assert_equal "$(completed release "--backend='file:$PWD/elsewhere'" --key '')" far
  unset DLOCK_BACKEND
  printf '[profile.far]\nbackend = "file:%s/elsewhere"\n[profile.fast]\n' "$PWD" >fleet.toml
  assert_equal "$(completed release --config fleet.toml --profile far --key '')" far
  mkdir -p xdg/dlock
  printf '  [profile."weekly"]\nttl = "9s"\n' >xdg/dlock/config.toml
  export XDG_CONFIG_HOME=$PWD/xdg
  assert_equal "$(completed run --profile w)" weekly
  assert_equal "$(completed run --config fleet.toml --profile fa)" 'far fast'
  # a directory is completed without a space after it
  rm options
  mkdir 'some where'
  touch somefile
  COMP_WORDS=("$DLOCK" run --status some) COMP_CWORD=3 COMP_LINE='dlock run --status some'
  _dlock
  assert_equal "$(printf '%s\n' "${COMPREPLY[@]}" | sort)" $'some where\nsomefile'
  assert_equal "$(cat options)" '-o filenames'
  COMP_WORDS=("$DLOCK" run -b file : "$PWD/som") COMP_CWORD=5 COMP_LINE="dlock run -b file:$PWD/som"
  _dlock
  assert_equal "${COMPREPLY[*]}" "$PWD/some where"
}

@test "completions: the options of each command are those of --help=all, in all three shells" {
  "$generate" "$DLOCK" completions
  cd completions || return
  bash -n dlock
  if command -v zsh >/dev/null; then zsh -n _dlock; fi
  if command -v fish >/dev/null; then fish -n dlock.fish; fi
  for verb in $("$DLOCK" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    of_help=$("$DLOCK" "$verb" --help=all | sed -n 's/^  *\(-., \)\{0,1\}--\([a-z-]*\).*/\2/p' |
      sort)
    [ -n "$of_help" ]
    of_bash=$(sed -n "s/^    $verb) mapfile .*compgen -W '\([^']*\)'.*/\1/p" dlock | tr ' ' '\n' |
      sed -n 's/^--//p' | sort)
    assert_equal "bash $verb: $of_bash" "bash $verb: $of_help"
    fish="complete -c dlock -n '__fish_seen_subcommand_from $verb' -l"
    of_fish=$(sed -n "s/^$fish \([a-z-]*\) .*/\1/p" dlock.fish | sort)
    assert_equal "fish $verb: $of_fish" "fish $verb: $of_help"
    of_zsh=$(sed -n "/^    $verb)/,/;;/p" _dlock | sed -n "s/^ *'\*\{0,1\}--\([a-z-]*\).*/\1/p" |
      sort)
    assert_equal "zsh $verb: $of_zsh" "zsh $verb: $of_help"
  done
}
