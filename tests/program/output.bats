#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Which result is printed in which form: --output X, and --json and --csv alike.
load common

setup() {
  common_setup
  cd "$BATS_TEST_TMPDIR" || return
}

# forms COMMAND... FORM...: exactly these forms are accepted, by --output and by the switches; $1
# counts the words of the command.
forms() {
  local count=$1 form
  local command=("${@:2:count}")
  shift $((count + 1))
  for form in text json env csv; do
    case " $* " in
      *" $form "*)
        run "$DLOCK" "${command[@]}" --output "$form" && [ "$status" -ne 64 ] ||
          fail "${command[*]} --output $form: $output"
        ;;
      *) refused 64 "--output: '$form' is neither " "${command[@]}" --output "$form" ;;
    esac
  done
  for form in json csv; do
    case " $* " in
      *" $form "*)
        run "$DLOCK" "${command[@]}" "--$form" && [ "$status" -ne 64 ] ||
          fail "${command[*]} --$form: $output"
        ;;
      *) refused 64 "'--$form'" "${command[@]}" "--$form" ;;
    esac
  done
  refused 64 "--output: 'xml' is neither text" "${command[@]}" --output xml
}

@test "each command has its forms, and refuses the others" {
  h=$("$DLOCK" acquire --key k)
  forms 6 acquire --key new -n -E 9 text json env
  forms 5 renew --key k --handle "$h" text json
  forms 5 check --key k --handle "$h" text json
  forms 2 inspect k text json csv
  forms 1 inspect text json csv
  forms 6 release --key k --handle "$h" --if-held text json
  for form in csv env; do refused 64 "--output" inspect --doctor --output $form; done
  refused 64 '--csv and --doctor contradict' inspect --doctor --csv
  refused 64 "'--json'" fence --state f --token 1 --json -- true
}

@test "--json and --output json print the same object" {
  "$DLOCK" acquire --key k --ttl 1h >handle
  for command in "inspect k" "check --key k --handle @handle" "renew --key k --handle @handle" \
    "--version"; do
    # shellcheck disable=SC2086
    names=$(json 'list(j)' <<<"$("$DLOCK" $command --json)")
    # shellcheck disable=SC2086
    assert_equal "$(json 'list(j)' <<<"$("$DLOCK" $command --output json)")" "$names"
    # shellcheck disable=SC2086
    assert_equal "$(json 'list(j)' <<<"$("$DLOCK" $command -J)")" "$names"
  done
  assert_equal "$(json 'list(j)' <<<"$("$DLOCK" inspect --doctor --json)")" \
    "['backend', 'recipe', 'weakness', 'fit', 'findings']"
  assert_equal "$("$DLOCK" inspect --doctor --output json | json 'list(j)')" \
    "['backend', 'recipe', 'weakness', 'fit', 'findings']"
}

@test "renew, check, release: the answer and the status as JSON" {
  h=$("$DLOCK" acquire --key k)
  sequencer=v1:file.lease:k:X:7
  run -0 "$DLOCK" renew --key k --handle "$h" --json
  assert_output '{"keys":["k"],"renewed":true,"status":0}'
  run -0 "$DLOCK" check --key k --handle "$h" --output json
  assert_output '{"keys":["k"],"valid":true,"status":0}'
  run -1 "$DLOCK" check "$sequencer" --json
  assert_output '{"keys":["k"],"valid":false,"status":1}'
  run -0 "$DLOCK" release --key k --handle "$h" --json
  assert_output '{"keys":["k"],"released":true,"status":0}'
  run --separate-stderr -75 "$DLOCK" release --key k --handle "$h" --json
  assert_output '{"keys":["k"],"released":false,"status":75}'
  run --separate-stderr -75 "$DLOCK" renew --key k --handle "$h" --json
  assert_output '{"keys":["k"],"renewed":false,"status":75}'
}

@test "an answer that is not known is null, with the reason" {
  [ -x "$DLOCK_FAKE" ] || skip 'dlock_fake is not built'
  run --separate-stderr -69 "$DLOCK_FAKE" check -b 'fake:?fail_open=unavailable' --key k --token 3 \
    --json
  run -0 json 'j["valid"], j["status"], bool(j["error"])' <<<"$output"
  assert_output '(None, 69, True)'
}

@test "--explain and --version as JSON" {
  run -0 json 'j["keys"], j["leased"], j["ttl_ms"], "if_dlock_dies" in j' \
    <<<"$("$DLOCK" run --explain --key a --key b --json -- true)"
  assert_output "(['a', 'b'], False, 30000, True)"
  DLOCK_OUTPUT=json run -0 "$DLOCK" run --key k -- true # of other commands
  assert_output ''
  run -0 json \
    'j["version"].count("."), [b["default"] for b in j["backends"] if b["family"] == "file"]' \
    <<<"$("$DLOCK" --version --output=json)"
  assert_output "(2, ['lease'])"
  assert_equal "$("$DLOCK" --version --output text)" "$("$DLOCK" --version)"
}

@test "a shared variable contradicts nothing" {
  run -0 "$DLOCK" inspect --json --output json
  DLOCK_OUTPUT='json' run -0 "$DLOCK" inspect --csv --no-heading
  assert_output ''
  # env is a form of acquire: the variable is for it, and leaves the other commands as they are.
  DLOCK_OUTPUT='env' run -0 "$DLOCK" inspect --no-heading
  DLOCK_OUTPUT='json' run -0 "$DLOCK" run --key k -- true
  assert_output ''
}
