#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Which result is printed in which form: --output X, and --json and --csv alike.
load common

@test "--json and --output json print the same object" {
  "$DLOCK" acquire --key k --ttl 1h >handle
  for command in "inspect k" "check --key k --handle @handle" "renew --key k --handle @handle" \
    "inspect --doctor" "--version"; do
    for form in --json '--output json' -J; do
      # shellcheck disable=SC2086
      "$DLOCK" $command $form | json 'list(j)'
    done >names
    assert_equal "$command: $(wc -l <names), $(sort -u names | wc -l)" "$command: 3, 1"
  done
  assert_equal "$("$DLOCK" inspect --doctor -J | json 'list(j)')" \
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
  assert_equal "$(json 'j["valid"], j["status"], bool(j["error"])' <<<"$output")" \
    '(None, 69, True)'
}

@test "--explain and --version as JSON" {
  json_is "(['a', 'b'], False, 30000, True)" \
    'j["keys"], j["leased"], j["ttl_ms"], "if_dlock_dies" in j' \
    <<<"$("$DLOCK" run --explain --key a --key b --json -- true)"
  DLOCK_OUTPUT=json run -0 "$DLOCK" run --key k -- true # of other commands
  assert_output ''
  json_is "(2, ['lease'])" \
    'j["version"].count("."), [b["default"] for b in j["backends"] if b["family"] == "file"]' \
    <<<"$("$DLOCK" --version --output=json)"
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
