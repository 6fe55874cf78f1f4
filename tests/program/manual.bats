#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The manual and --help list the same options, exit statuses, variables and columns.
load common

man=$BATS_TEST_DIRNAME/../../man
commands='run acquire renew release check fence inspect bench config'

# `.It Fl w , Fl -wait Ns = Ns Ar D` -> `-w, --wait=D`, of all pages named, without --version (dlock
# itself)
options_of_pages() {
  sed -n -e 's/^\.It Fl \([[:alnum:]]\) , Fl -/-\1, --/p' -e 's/^\.It Fl -/--/p' "$@" |
    sed -e 's/ Ns = Ns Ar /=/' | grep -v '^--version' | sort
}

options_of_help() {
  "$DLOCK" "$1" --help=all | sed -n 's/^  *\(\(-., \)\{0,1\}--[a-z-]*\(=[^ ]*\)\{0,1\}\).*/\1/p' |
    sort
}

@test "each page has the options of --help with their arguments, and no others" {
  for command in $commands; do
    common=$(options_of_pages "$man/dlock.1" "$man/dlock-faults.7")
    case $command in
      # It has no backend.
      fence) common=$(comm -12 <(echo "$common" | sort) <(options_of_help fence | sort)) ;;
      bench | config) common=$(echo "$common" | grep -v '^--trace=') ;;
    esac
    of_pages=$( (echo "$common" && options_of_pages "$man/dlock-$command.1") | sort)
    assert_equal "$command: $of_pages" "$command: $(options_of_help "$command" | sort)"
  done
}

@test "the commands of --help have a page that dlock(1) names" {
  of_help=$("$DLOCK" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | tr '\n' ' ')
  assert_equal "$of_help" "$commands "
  for command in $commands; do
    grep -qx ".It Xr dlock-$command 1" "$man/dlock.1" || fail "dlock(1) does not list $command"
  done
}

@test "dlock(1) and --help list the same exit statuses" {
  of_help=$("$DLOCK" --help | sed -n '/^Exit status:/,$s/^  \([0-9]\{1,\}\) .*/\1/p' | sort -n)
  of_page=$(sed -n '/^\.Sh EXIT STATUS/,/^\.Sh EXAMPLES/s/^\.It //p' "$man/dlock.1" |
    sed 's/\\(en255//; s/, /\n/' | sort -n)
  assert_equal "$of_page" "$of_help"
}

@test "the options without a variable are those that dlock(1) names" {
  of_page=$(sed -n '/^There is no such variable/,/^\.Pp/p' "$man/dlock.1" | grep '^\.Fl' |
    sed 's/\.Fl//' | tr ',' '\n' | tr -d ' .' | grep . | sed 's/^/-/' | sort)
  of_help=$(for command in $commands; do
    variables=" $("$DLOCK" "$command" --help=all | sed -n '/^Environment/,/^$/p' | tr '\n' ' ') "
    for option in $(options_of_help "$command" | sed 's/.*--/--/; s/=.*//'); do
      name=DLOCK_$(echo "${option#--}" | tr 'a-z-' 'A-Z_')
      case $variables in *" $name "*) ;; *) echo "$option" ;; esac
    done
  done | sort -u)
  assert_equal "$of_page" "$of_help"
}

@test "dlock help prints the pages of the backends, as man does" {
  pages=$("$DLOCK" --help | sed -n '/^Pages of the manual/{n;s/^ *//p;}')
  assert_equal "$(tr ' ' '\n' <<<"$pages" | sort)" \
    "$(cd "$man" && ls ./*.7 | sed 's/^\.\/dlock-//; s/\.7$//')"
  for page in $pages; do
    run -0 --separate-stderr "$DLOCK" help "$page"
    assert_equal "$stderr" ''
    assert_equal "$output" "$(mandoc -T ascii -I os=dlock "$man/dlock-$page.7" | sed 's/.\x08//g')"
    grep -qx "\.Xr dlock-$page 7\( ,\)\{0,1\}" "$man/dlock.1" || fail "dlock(1) does not name $page"
  done
  run -64 "$DLOCK" help redsi
  assert_output \
    "dlock: unknown command or page 'redsi'; did you mean redis? (dlock --help lists the commands)"
}

@test "dlock-backends(7) says what each recipe can do" {
  mkdir locks
  built=$("$DLOCK" --version | sed -n 's/ ([^)]*)//g; s/^\([a-z]*\): \(.*\)/\1, \2/p')
  while IFS=, read -r family rest; do
    for recipe in ${rest//,/ }; do echo "$family $recipe"; done
  done <<<"$built" | sort >built
  assert [ -s built ]
  sed -n '/^\.Sh WHAT EACH RECIPE/,/^\.El/p' "$man/dlock-backends.7" |
    awk '/^\.(It|El)/ { if (of) print of "|" can; of = substr($0, 5); can = " "; next }
      of { can = can $0 " " }' >rows
  cut -d'|' -f1 rows | sed 's/, /\n/g' | sort >named
  assert_equal "$(comm -23 built named)" ''
  while IFS='|' read -r recipes can; do
    while read -r family recipe; do
      grep -qx "$family $recipe" built || continue # not built in
      case $family in
        file) url=file:$PWD/locks ;;
        mysql | postgresql) url=$family://127.0.0.1:1/db ;;
        redlock) url=redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3 ;;
        *) url=$family://127.0.0.1:1 ;;
      esac
      while read -r word command; do
        # shellcheck disable=SC2086  # a command and its options
        run "$DLOCK" $command -q --connect-timeout 50ms -b "$url?recipe=$recipe" --key "$recipe"
        takes=yes
        [ "$status" != 64 ] || takes=
        named=
        [[ $can != *" $word "* && $can != *" -$word "* && $can != *" $word, "* ]] || named=yes
        assert_equal "$family $recipe $word: $takes ($output)" \
          "$family $recipe $word: $named ($output)"
      done <<'X'
s run --explain -c true -s
limit run --explain -c true --limit 2
lock-delay run --explain -c true --lock-delay 1s --ttl 20s
once-per run --explain -c true --once-per 1h
revoke release --revoke
acquire acquire -n
X
    done < <(sed 's/, /\n/g' <<<"$recipes")
  done <rows
}

@test "dlock-inspect(1) names the columns" {
  run -64 "$DLOCK" inspect -o NONE
  of_help=$(sed 's/.*is not a column: //' <<<"$output" | tr -d ' ' | tr ',' '\n' | sort)
  of_page=$(sed -n '/^\.Ss Columns/,/^\.Sh/p' "$man/dlock-inspect.1" | sed -n 's/^\.Cm//p' |
    tr ' ' '\n' | grep -E '^[A-Z]{2,}$' | sort -u)
  assert_equal "$of_page" "$of_help"
}

# Where a row is wider, groff breaks it in the middle, and no column stands below its name.
@test "the tables of the pages fit a terminal of 80 columns" {
  for page in "$man"/*.[17]; do
    wide=$(mandoc -T ascii "$page" | sed 's/.\x08//g' | grep -E '^ {5}[^ ].{73,}' || :)
    assert_equal "$page:$wide" "$page:"
  done
}
