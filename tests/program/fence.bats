#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
load common

@test "an older token is refused, the same and a newer one are not" {
  run -0 "$DLOCK" fence --state f --token 5 -- echo five
  assert_output five
  refused 123 'token 4 is older than 5' fence --state f --token 4 -- touch ran
  [ ! -e ran ]
  run -0 "$DLOCK" fence --state f --token 5 -- true
  run -0 "$DLOCK" fence --state f --token 18446744073709551615 -- true
  run -123 "$DLOCK" fence --state f --token 6 -- true
}

@test "the command's status, and its tokens" {
  run -7 "$DLOCK" fence --state f --token 5 -- sh -c 'exit 7'
  run -127 "$DLOCK" fence --state f --token 5 -- /nonexistent
  DLOCK_TOKEN=9 run -0 "$DLOCK" fence --state f --token 9 -- sh -c 'echo $DLOCK_TOKEN'
  assert_output 9
}

@test "the token is noted before the command starts, and stays when all processes are killed" {
  "$DLOCK" fence --state f --token 7 -- sh -c 'touch began; exec sleep 100' &
  eventually test -e began
  kill -9 $! "$(cat /proc/$!/task/$!/children)"
  run -123 timeout 20 "$DLOCK" fence --state f --token 6 -- true
}

@test "the token is on the disk before the command starts, even if the file already has it" {
  strace -o /dev/null true 2>/dev/null || skip 'no strace here'
  # A new file; one left by a dlock that may have been killed before it was on disk; a newer one.
  for token in 5 5 6; do
    strace -f -q -o calls -e trace=fsync,fdatasync,pwrite64,execve "$DLOCK" fence --state f \
      --token $token -- /bin/true
    run -0 sed -n '/execve("\/bin\/true"/q; s/^[0-9]* *\([a-z0-9]*\)(.*/\1/p' calls
    assert_line --index $((${#lines[@]} - 1)) fsync
  done
}

@test "without the token on the disk no command runs" {
  run -73 bash -c 'trap "" XFSZ; ulimit -f 0; exec "$DLOCK" fence --state f --token 5 -- touch ran'
  [ ! -e ran ]
  run -0 "$DLOCK" fence --state f --token 4 -- true
}

@test "calls for one file run one after the other" {
  pids=()
  for _ in {1..20}; do
    "$DLOCK" fence --state f --token 3 -- \
      sh -c 'mkdir inside && sleep 0.01 && rmdir inside || touch overlap' &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid"; done
  [ ! -e overlap ]
  "$DLOCK" fence --state f --token 3 -- sh -c 'touch began; exec sleep 100' &
  eventually test -e began
  refused 75 'another command' fence --state f --token 3 -n -- true
  refused 9 'another command' fence --state f --token 3 -w 50ms -E 9 -- true
  end_of $! TERM
}

@test "a file that is replaced again and again does not prolong the wait" {
  strace -o /dev/null true 2>/dev/null || skip 'no strace here'
  "$DLOCK" fence --state "$PWD/f" --token 5 -- true
  # Each third access to the file is the one by name, after it was locked.
  run -75 strace -f -q -o calls -P "$PWD/f" -e inject=newfstatat:error=ENOENT:when=3+3 \
    timeout -s KILL 20 "$DLOCK" fence --state "$PWD/f" --token 5 -w 300ms -- touch ran
  assert_output --partial 'is replaced again'
  [ ! -e ran ]
}

@test "a file with a second hard link is refused" {
  : >other
  ln other f
  refused 77 'hard links' fence --state f --token 5 -- true
  [ ! -s other ]
}

@test "what is no file is refused, and not waited for" {
  mkfifo fifo
  for state in fifo /dev/null /dev/zero; do
    refused 77 'is not a regular file' fence --state $state --token 5 -- touch ran
  done
  refused 73 'Is a directory' fence --state . --token 5 -- touch ran
  assert [ ! -e ran ]
}

@test "a damaged slot leaves the older record; a foreign file is refused" {
  "$DLOCK" fence --state f --token 7 -- true
  "$DLOCK" fence --state f --token 8 -- true
  # In the record of token 8: a torn write.
  printf x | dd of=f bs=1 seek=4110 conv=notrunc status=none
  run -123 "$DLOCK" fence --state f --token 6 -- true
  run -0 "$DLOCK" fence --state f --token 7 -- true
  echo 'dear diary' >diary
  refused 78 'something else' fence --state diary --token 1 -- true
  refused 73 '--state' fence --state no/such/dir --token 1 -- true
  ln -s f link
  refused 77 '--state' fence --state link --token 9 -- true
}

@test "a newer dlock has written there: refused, though the older record beside it is readable" {
  "$DLOCK" fence --state f --token 7 -- true
  "$DLOCK" fence --state f --token 9 -- true
  printf 2 | dd of=f bs=1 seek=$((4096 + 11)) conv=notrunc status=none
  refused 78 'was written by a newer dlock (dlock-fence2...)' fence --state f --token 8 -- touch ran
  assert [ ! -e ran ]
}

@test "the worked example: the write of a holder that was frozen is refused" {
  publish='cat >new && mv new page'
  frozen=$("$DLOCK" run --key site -- sh -c 'echo $DLOCK_TOKEN')
  "$DLOCK" run --key site -- \
    sh -c "echo B | \"\$DLOCK\" fence --state .fence --token \$DLOCK_TOKEN -- sh -c '$publish'"
  run -123 bash -c "echo A | '$DLOCK' fence --state .fence --token $frozen -- sh -c '$publish'"
  assert_equal "$(cat page)" B
}
