#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The scripts for new users, on a tree with a fake cmake that takes time and counts its calls.
load common

setup() {
  common_setup
  scripts=$(cd "$BATS_TEST_DIRNAME/../../scripts" && pwd)
  tree="$BATS_TEST_TMPDIR/a tree"
  mkdir -p "$tree/scripts" "$tree/src" "$tree/backends" "$BATS_TEST_TMPDIR/bin"
  cp "$scripts/dlock" "$scripts/deps" "$tree/scripts/"
  touch "$tree/CMakeLists.txt" "$tree/src/main.cpp"
  # Configuring makes the files that cmake makes; building makes a "dlock" that prints its name and
  # exits with its first argument.
  cat >"$BATS_TEST_TMPDIR/bin/cmake" <<'STAND_IN'
#!/bin/bash
echo "some chatter"
case $1 in
  --build)
    if [ -n "$BREAK" ]; then echo "main.cpp:1: error: as told" && exit 1; fi
    [ -z "$GATE" ] || { echo started >"$GATE.started" && read -r -t 20 _ <>"$GATE"; }
    mkdir -p "$2/src"
    printf '#!/bin/sh\n[ "$1" != PID ] || exec echo $$\necho "dlock($#): $*"\nexit ${1:-0}\n' \
      >"$2/src/dlock"
    chmod +x "$2/src/dlock"
    ;;
  *)
    while [ "$1" != -B ]; do
      [ "$1" != -S ] || home=$2
      shift
    done
    touch "$2/build.ninja" && echo "CMAKE_HOME_DIRECTORY:INTERNAL=$home" >"$2/CMakeCache.txt"
    ;;
esac
echo "$1" >>"$(dirname "$0")/../calls"
echo "$*" >>"$(dirname "$0")/../lines"
STAND_IN
  chmod +x "$BATS_TEST_TMPDIR/bin/cmake"
  PATH=$BATS_TEST_TMPDIR/bin:$PATH
  export BREAK='' GATE=''
}

builds() { grep -cx -- --build "$BATS_TEST_TMPDIR/calls"; }
# Older than any build that starts now, even with coarse file times.
age() { find "$tree" -exec touch -d '1 minute ago' {} +; }

@test "deps: nothing missing, no output, no network access" {
  run -0 "$scripts/deps" build
  assert_output ''
}

@test "deps: an unknown purpose is 64 and lists the known ones" {
  run -64 "$scripts/deps" tests
  assert_output --partial \
    "'tests' is not one of build, test, services, peers, comparison, builds, package, all"
}

@test "dlock: the first call builds; stdout, arguments and status are the binary's" {
  age
  run -7 --separate-stderr "$tree/scripts/dlock" 7 'a  b' ''
  assert_output 'dlock(3): 7 a  b '
  assert_regex "$stderr" 'first use'
  run -3 --separate-stderr "$tree/scripts/dlock" 3
  assert_equal "$stderr" ''
  assert_equal "$(builds)" 1
}

@test "dlock: the first call builds everything that cmake --install needs" {
  age
  "$tree/scripts/dlock"
  run grep -e --build "$BATS_TEST_TMPDIR/lines"
  assert_output --regexp '--target dlock completions$'
  # The same for the program under test: everything else to install is in the source tree.
  built=$(cd "$(dirname "$DLOCK")/.." && pwd)
  run -0 "$(PATH=${PATH#*:} command -v cmake)" --install "$built" --prefix "$BATS_TEST_TMPDIR/usr"
  for file in bin/dlock share/man/man1/dlock-run.1 share/man/man7/dlock-backends.7 \
    share/bash-completion/completions/dlock; do
    assert [ -s "$BATS_TEST_TMPDIR/usr/$file" ]
  done
}

@test "dlock: off a terminal a long build prints one line a minute" {
  age
  # A clock of which each look is 25 s after the last.
  cat >"$BATS_TEST_TMPDIR/bin/date" <<'STAND_IN'
#!/bin/sh
at=$(cat "$0.at" 2>/dev/null || echo 0)
echo $((at + 25)) >"$0.at"
echo $at
STAND_IN
  sed -i 's/^echo "some chatter"$/for n in 1 2 3 4 5 6 7; do echo "[$n\/7] step"; done/' \
    "$BATS_TEST_TMPDIR/bin/cmake"
  chmod +x "$BATS_TEST_TMPDIR/bin/date"
  run -0 --separate-stderr "$tree/scripts/dlock" 0
  # 14 lines, of cmake -S and cmake --build: the third, sixth, ninth and twelfth.
  assert_equal "$(grep -c '^dlock: still building: \[./7\] step$' <<<"$stderr")" 4
}

@test "deps: an apt that fails is 69 and names the packages that could not be installed" {
  printf '#!/bin/sh\nexit 1\n' >"$BATS_TEST_TMPDIR/bin/dpkg-query"
  printf '%s\n' '#!/bin/sh' 'echo chatter' \
    'case $* in *install*) echo "E: no such luck" >&2; exit 100 ;; esac' \
    >"$BATS_TEST_TMPDIR/bin/apt-get"
  printf '#!/bin/sh\n[ "$1" != -n ] || shift\nexec "$@"\n' >"$BATS_TEST_TMPDIR/bin/sudo"
  chmod +x "$BATS_TEST_TMPDIR/bin"/*
  run -69 "$scripts/deps" build
  assert_output --partial 'E: no such luck'
  assert_output --partial 'apt-get failed. As root: apt-get install --no-install-recommends g++'
  refute_output --partial chatter
}

@test "dlock: works through a symbolic link, from anywhere, without stdin or stderr" {
  age
  ln -s "$tree/scripts/dlock" "$BATS_TEST_TMPDIR/bin/dl"
  cd /
  run -5 sh -c 'exec "$1" 5 <&- 2>&-' sh "$BATS_TEST_TMPDIR/bin/dl"
  assert_output 'dlock(1): 5'
  run -4 dl 4
  cd "$tree/scripts"
  run -6 sh dlock 6
  assert_equal "$(builds)" 1
}

@test "dlock: the binary replaces the script process, so it gets all signals" {
  age
  "$tree/scripts/dlock" 0
  "$tree/scripts/dlock" PID >"$BATS_TEST_TMPDIR/pid" 3>&- &
  wait $!
  assert_equal "$(cat "$BATS_TEST_TMPDIR/pid")" $!
}

@test "dlock: a newer source is built, a newer README is not" {
  age
  "$tree/scripts/dlock"
  age
  touch "$tree/src/README.md" "$tree/build/.built" # the first makes its directory newer
  touch -d '1 minute' "$tree/src/README.md"
  "$tree/scripts/dlock"
  assert_equal "$(builds)" 1
  touch -d '1 minute' "$tree/src/main.cpp"
  run -2 "$tree/scripts/dlock" 2
  assert_equal "$(builds)" 2
}

@test "dlock: a build that fails is 69, shows the end of its log and names its file" {
  age
  BREAK=yes run -69 "$tree/scripts/dlock" 0
  assert_output --partial 'main.cpp:1: error: as told'
  assert_output --partial "its log is $tree/build/build.log"
  run -0 "$tree/scripts/dlock" 0
}

@test "dlock: two first calls at a time build once" {
  age
  mkfifo "$BATS_TEST_TMPDIR/gate" "$BATS_TEST_TMPDIR/gate.started" "$BATS_TEST_TMPDIR/said"
  GATE=$BATS_TEST_TMPDIR/gate "$tree/scripts/dlock" 0 >"$BATS_TEST_TMPDIR/one" 2>&1 3>&- &
  first=$!
  read -r -t 20 line <>"$BATS_TEST_TMPDIR/gate.started"
  "$tree/scripts/dlock" 0 >"$BATS_TEST_TMPDIR/two" 2>"$BATS_TEST_TMPDIR/said" 3>&- &
  second=$!
  read -r -t 20 line <>"$BATS_TEST_TMPDIR/said"
  assert_equal "$line" 'dlock: another call is building; waiting for it'
  echo go >"$BATS_TEST_TMPDIR/gate"
  wait $first
  wait $second
  assert_equal "$(builds)" 1
  assert_equal "$(cat "$BATS_TEST_TMPDIR/two")" 'dlock(1): 0'
}

@test "dlock: a copy of a built tree is configured anew" {
  age
  "$tree/scripts/dlock"
  cp -a "$tree" "$BATS_TEST_TMPDIR/copy"
  touch -d '1 minute' "$BATS_TEST_TMPDIR/copy/src/main.cpp"
  "$BATS_TEST_TMPDIR/copy/scripts/dlock"
  run cat "$BATS_TEST_TMPDIR/copy/build/CMakeCache.txt"
  assert_output "CMAKE_HOME_DIRECTORY:INTERNAL=$(cd "$BATS_TEST_TMPDIR/copy" && pwd -P)"
}

# A tree in which scripts/prove, test, fuzz and mutants can see what they are asked for, and a deps
# that does nothing but tell.
tree_of_tests() {
  cp "$scripts"/{prove,test,fuzz,mutants,builds,check,peers} "$tree/scripts/"
  printf '#!/bin/sh\necho deps >>"%s"\n' "$BATS_TEST_TMPDIR/calls" >"$tree/scripts/deps"
  mkdir -p "$tree"/tests/{pure/fuzz/corpus/url,program,mutants}
  echo 'late | a fault | I1 | target | false' >"$tree/tests/mutants/table"
}

@test "prove, test, fuzz, mutants: what is wrong is one line and 64, before any package or build" {
  tree_of_tests
  while read -r line; do
    run -64 "$tree/scripts/"$line
    assert_equal "$line: ${#lines[@]}" "$line: 1"
    assert_output --regexp '^scripts/(prove|test|fuzz|mutants): '
    assert [ ! -e "$BATS_TEST_TMPDIR/calls" ]
  done <<'WRONG'
prove nosuch
prove state nosuch
prove state --faults
prove --nosuch
prove --simulation --faults
prove --defaults file
prove --faults --nosuch
prove --faults --budget
prove --faults --budget --json /tmp/f.json
prove --faults file
prove --comparison --seconds
prove --many nosuch
prove --mutants nosuch
prove --mutants --check late
test nosuch
test --rest --full
test --only
test --only program pure
test --only nosuch
fuzz nosuch
fuzz -t
fuzz -t x
fuzz -x
mutants --nosuch
WRONG
}

@test "prove, test, fuzz, mutants, builds, check, peers: --help is 0, on stdout, builds nothing" {
  tree_of_tests
  for call in prove 'prove --faults' 'prove --many' 'prove --mutants' test fuzz mutants builds \
    check peers; do
    run -0 --separate-stderr "$tree/scripts/"$call --help
    assert_equal "$stderr" ''
    assert_output --partial 'scripts/'
    assert [ ! -e "$BATS_TEST_TMPDIR/calls" ]
  done
}

@test "prove: the options that it lets through are those of the programs behind it" {
  tests=$(cd "$scripts/../tests" && pwd)
  while read -r mode file; do
    said=$(awk -v mode="  $mode)" '$0 == mode { on = 1 }
      on && /takes/ { said = 1 }
      said { print }
      said && !/\\$/ { exit }' "$scripts/prove" | grep -o -e '--[a-z-]*' | sort)
    has=$(grep -v subprocess "$tests/$file" | grep -oE '"--[a-z-]+"' | tr -d '"' | sort -u)
    assert_equal "$said" "$has"
  done <<'MODES'
--faults program/runner/main.cpp
--comparison measure/comparison/compare.py
--many measure/many/many.py
MODES
}

@test "prove: 1 is a broken promise only; wrong options are 64, and what was not run is 77" {
  tree_of_tests
  mkdir -p "$tree/build-prove/tests/stores/file"
  printf '#!/bin/sh\nexit $CODE\n' >"$tree/build-prove/tests/stores/file/file_prove"
  chmod +x "$tree/build-prove/tests/stores/file/file_prove"
  CODE=0 run -0 "$tree/scripts/prove" contend
  CODE=3 run -1 "$tree/scripts/prove" contend
  assert_line 'scripts/prove: a promise was broken, see above'
  CODE=64 run -64 "$tree/scripts/prove" contend
  refute_output --partial broken
  CODE=77 run -77 "$tree/scripts/prove" contend
  assert_line 'scripts/prove: not all of it was run, see above'
  run grep -e --build "$BATS_TEST_TMPDIR/lines"
  assert_line '--build build-prove --target file_prove'
}

# The same, with a ctest that has done those of build-test at once and waits for any other test.
tree_of_waiting_tests() {
  tree_of_tests
  printf '#!/bin/sh\n' >"$tree/scripts/check"
  cat >"$BATS_TEST_TMPDIR/bin/ctest" <<'STAND_IN'
#!/bin/sh
if [ "$2" = build-test ]; then
  mkdir -p build-test/Testing/Temporary
  exec touch build-test/Testing/Temporary/LastTest.log
fi
sleep 60 &
echo $! >"$0.$(basename "$2")"
wait
STAND_IN
  chmod +x "$BATS_TEST_TMPDIR/bin/ctest"
}

@test "test: Ctrl-C ends the tests that wait, too" {
  tree_of_waiting_tests
  "$PTY_DRIVE" "$tree/scripts/test" --rest <<STEPS
    file $BATS_TEST_TMPDIR/bin/ctest.defaults
    file $BATS_TEST_TMPDIR/bin/ctest.build-asan
    type \x03
    end signal 2 (INT)
STEPS
}

@test "test: a build that fails ends the tests that wait" {
  tree_of_waiting_tests
  cat >"$BATS_TEST_TMPDIR/bin/cmake" <<'STAND_IN'
#!/bin/sh
case $* in
  *build-asan*)
    until [ -s "${0%/*}/ctest.defaults" ]; do sleep 0.02; done
    exit 1
    ;;
esac
STAND_IN
  run -1 timeout 60 "$tree/scripts/test" --rest
  local pid
  pid=$(<"$BATS_TEST_TMPDIR/bin/ctest.defaults")
  for _ in {1..400}; do kill -0 "$pid" || return 0; sleep 0.05; done
  kill "$pid"
  fail 'a test that waits goes on'
}
