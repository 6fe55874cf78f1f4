# SPDX-License-Identifier: Apache-2.0
# Part of scripts/completions/generate. Standard input: `dlock --help`; for each command a line
# `@ NAME` and its --help=all; for each scheme a line `@ SCHEME:` and the message that lists its
# recipes. Writes the templates dlock.bash, dlock.zsh and dlock.fish in `from` to `to`, with the
# rows that belong at their lines `# @WHAT@`.

$1 == "@" { part = $2; next }
part == "" && /^Pages / { getline; sub(/^ */, ""); pages = $0 }
part == "" && /^Commands:/ { listed = 1; next }
part == "" && listed && /^$/ { listed = 0 }
part == "" && listed { name = $1; sub(/^ *[a-z]+ */, ""); verb[++verbs] = name; about[name] = $0 }
part ~ /:$/ && sub(/.*allowed are /, "") {
  gsub(/,/, "")
  scheme[++schemes] = substr(part, 1, length(part) - 1)
  recipes[schemes] = $0
}
# An option: `  -X, --NAME=ARGUMENT HELP`, with or without the letter, the argument, and the help.
part ~ /^[a-z]+$/ && /^  (-.,|   ) --[a-z]/ {
  letter = substr($0, 4, 1)
  rest = substr($0, 9)
  match(rest, /^[a-z-]+/)
  name = substr(rest, 1, RLENGTH)
  rest = substr(rest, RLENGTH + 1)
  argument = substr(rest, 1, index(rest " ", " ") - 1)
  if (argument !~ /^(=|\[=|$)/ || (part, name) in letters) next
  sub(/^[^ ]* */, "", rest)
  letters[part, name] = letter
  arguments[part, name] = argument
  helps[part, name] = rest
  # sort by name
  for (i = ++count[part]; i > 1 && option[part, i - 1] > name; i--)
    option[part, i] = option[part, i - 1]
  option[part, i] = name
}

END {
  for (i = 1; i <= verbs; i++) names = names (i > 1 ? " " : "") verb[i]
  for (i = 1; i <= schemes; i++)
    urls = urls (i > 1 ? " " : "") scheme[i] (scheme[i] ~ /^file$|\+unix$/ ? ":" : "://")
  fill("bash", "dlock")
  fill("zsh", "_dlock")
  fill("fish", "dlock.fish")
}

function fill(shell, name,    line) {
  while ((getline line < (from "/dlock." shell)) > 0) {
    if (line ~ /^ *# @[a-z]+@$/) line = rows(shell, line)
    gsub(/@verbs@/, names, line)
    gsub(/@pages@/, pages, line)
    gsub(/@urls@/, urls, line)
    if (line != "") print line > (to "/" name)
  }
}

function rows(shell, line,    text, v, o) {
  if (line ~ /recipes/) for (o = 1; o <= schemes; o++) text = text "\n" recipe_row(shell, o)
  else if (line ~ /verbs/)
    for (v = 1; v <= verbs; v++) text = text "\n" verb_row(shell, verb[v])
  else
    for (v = 1; v <= verbs; v++) {
      text = text before(shell, line, verb[v])
      for (o = 1; o <= count[verb[v]]; o++)
        text = text row(shell, line, verb[v], option[verb[v], o])
      text = text after(shell, line, verb[v])
    }
  return substr(text, 2)
}

function recipe_row(shell, o) {
  if (shell == "fish")
    return "    case '" scheme[o] ":*'\n      string split ' ' '" recipes[o] "'"
  if (shell == "bash") return "    " scheme[o] ":*) echo '" recipes[o] "' ;;"
  return "    " scheme[o] ":*) compadd -- " recipes[o] " ;;"
}

function verb_row(shell, v) {
  if (shell == "zsh") return "    '" v ":" quoted(about[v]) "'"
  return "complete -c dlock -n __fish_use_subcommand -f -a " v " -d '" quoted_fish(about[v]) "'"
}

function before(shell, line, v) {
  if (shell == "zsh") return "\n    " v ")\n      _arguments -S -s"
  if (shell == "bash" && line ~ /options/)
    return "\n    " v ") mapfile -t COMPREPLY < <(compgen -W '"
}

function after(shell, line, v) {
  if (shell == "bash" && line ~ /options/) return "' -- \"$cur\") ;;"
  if (shell != "zsh") return ""
  if (v ~ /^(run|fence)$/) return " \\\n        '*::command:_normal' ;;"
  if (v ~ /^(inspect|acquire|renew|release|check)$/) return " \\\n        ':key:_dlock_keys' ;;"
  return " ;;"
}

function row(shell, line, v, name) {
  if (shell == "bash") return line ~ /options/ ? "--" name " " : bash_row(v, name)
  return shell == "zsh" ? zsh_rows(v, name) : "\n" fish_row(v, name)
}

function takes_argument(v, name) { return arguments[v, name] ~ /^=/ }

function bash_row(v, name,    pattern, list) {
  if (!takes_argument(v, name)) return ""
  pattern = "\n    " v ":--" name
  if (letters[v, name] != " ") pattern = pattern " | " v ":-" letters[v, name]
  pattern = pattern ") "
  if (name == "key") return pattern "_dlock_keys \"$cur\"; return ;;"
  if (name == "profile") return pattern offer("-W \"$(_dlock_profiles)\"")
  if (name == "recipe") return pattern offer("-W \"$(_dlock_recipes)\"")
  if (name == "backend") return pattern "compopt -o nospace && " offer("-W '" urls "'")
  list = choices(v, name)
  if (list != "") return pattern offer("-W '" list "'")
  if (is_file(name)) return pattern "compopt -o filenames && " offer("-f")
  return pattern "return ;;"
}
function offer(action) {
  return "mapfile -t COMPREPLY < <(compgen " action " -- \"$cur\") && return ;;"
}

function zsh_rows(v, name,    words, value, equals, star, list, text) {
  words = quoted(helps[v, name])
  gsub(/[][]/, "\\\\&", words)
  gsub(/:/, "\\:", words)
  words = "[" words "]"
  list = choices(v, name)
  if (takes_argument(v, name)) {
    equals = "="
    if (name == "key") value = ":key:_dlock_keys"
    else if (name == "recipe") value = ":recipe:_dlock_recipes"
    else if (name == "backend") value = ":URL:_dlock_urls"
    else if (list != "") value = ":value:(" list ")"
    else if (is_file(name)) value = ":file:_files"
    else value = ":value: "
  }
  if (name == "key") star = "*"
  text = " \\\n        '" star "--" name equals words value "'"
  if (letters[v, name] != " ")
    text = text " \\\n        '" star "-" letters[v, name] words value "'"
  return text
}

function fish_row(v, name,    line, list) {
  line = "complete -c dlock -n '__fish_seen_subcommand_from " v "' -l " name
  if (letters[v, name] != " ") line = line " -s " letters[v, name]
  list = choices(v, name)
  if (!takes_argument(v, name)) line = line " -f"
  else if (name == "key") line = line " -x -a '(__dlock_keys)'"
  else if (name == "recipe") line = line " -x -a '(__dlock_recipes)'"
  else if (list != "") line = line " -x -a '" list "'"
  else if (is_file(name)) line = line " -r -F"
  else line = line " -x"
  return line " -d '" quoted_fish(helps[v, name]) "'"
}

# Returns the possible values of an argument, if these are a short list.
function choices(v, name,    list) {
  if (name == "once-per") return "hour day week month"
  if (name == "signal") return "TERM INT HUP QUIT KILL USR1 USR2"
  if (name == "scenario") return "uncontended handoff shared limit renew crash all"
  if (name == "backend") return urls
  if (name == "on-lost") return "kill signal:TERM exec:"
  list = arguments[v, name]
  if (name == "status" || list !~ /^=.*\|/) return ""
  gsub(/\|/, " ", list)
  return substr(list, 2)
}

function is_file(name) {
  return name ~ /^(status|metrics-file|trace|html|config|.*-file|tls-ca|tls-cert|tls-key|state)$/
}

# Quotes a text for a shell. It does not use gsub: awks differ on a backslash before a quote.
function quoted(text,    part, n, i) {
  n = split(text, part, "'")
  text = part[1]
  for (i = 2; i <= n; i++) text = text "'\\''" part[i]
  return text
}
function quoted_fish(text) { gsub(/[\\']/, "\\\\&", text); return text }
