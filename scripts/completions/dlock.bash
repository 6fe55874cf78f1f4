# bash completion of dlock; generated from its table of options
# where the locks are: -b, else what variables and files say
_dlock_backend() {
  local url
  if [[ $COMP_LINE =~ [[:space:]](-b[[:space:]]*|--backend[=[:space:]])([^[:space:]]+) ]]; then
    url=${BASH_REMATCH[2]}
  else
    url=$("${COMP_WORDS[0]}" config 2>/dev/null | sed -n 's/^backend = "\([^"]*\)".*/\1/p')
  fi
  printf '%s' "${url:-file:}"
}
# the options of this line that say which store is meant, in $store
_dlock_store() {
  local words i
  read -ra words <<<"${COMP_LINE//[\'\"]/}"
  store=()
  for ((i = 2; i < ${#words[@]}; i++)); do
    case ${words[i]} in
      --) return ;;
      -b | --backend | --recipe | --profile | --config | --*-file | --tls-ca | --tls-cert | \
        --tls-key | --tls-name)
        [[ ${words[i]} == --metrics-file ]] || store+=("${words[i]}" "${words[i + 1]-}")
        ((++i)) ;;
      --metrics-file=*) ;;
      -b* | --backend=* | --recipe=* | --profile=* | --config=* | --*-file=* | --tls-*)
        store+=("${words[i]}") ;;
    esac
  done
}
# Keys are text of others: compgen -W would expand them.
_dlock_keys() {
  local store key patience=${_dlock_patience:-1s}
  _dlock_store
  while IFS= read -r key; do
    [[ $key != "$1"* ]] || COMPREPLY+=("$(printf %q "$key")")
  done < <("${COMP_WORDS[0]}" inspect "${store[@]}" --connect-timeout "$patience" \
    --op-timeout "$patience" --no-heading -o KEY 2>/dev/null)
}
_dlock_profiles() {
  local file=
  [[ $COMP_LINE =~ [[:space:]]--config[=[:space:]]([^[:space:]]+) ]] && file=${BASH_REMATCH[1]}
  sed -n 's/^[[:space:]]*\[profile\.\([^]]*\)\].*/\1/p' ${file:+"$file"} \
    "${XDG_CONFIG_HOME:-$HOME/.config}/dlock/config.toml" /etc/dlock/config.toml 2>/dev/null |
    tr -d "\"' "
}
_dlock_recipes() {
  case $(_dlock_backend) in
    # @recipes@
  esac
}
_dlock() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]} i
  COMPREPLY=()
  # --name=value comes as three words
  if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD - 2]}; fi
  if [[ $prev == : && ${COMP_WORDS[COMP_CWORD - 2]} == file ]]; then
    compopt -o filenames -o nospace
    mapfile -t COMPREPLY < <(compgen -d -- "$cur")
    return
  fi
  for ((i = 2; i < COMP_CWORD; i++)); do
    if [[ ${COMP_WORDS[i]} == -- ]]; then
      if declare -F _command_offset >/dev/null; then
        _command_offset $((i + 1))
      else
        compopt -o default
      fi
      return
    fi
  done
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W '@verbs@ help --help --version' -- "$cur")
    return
  fi
  case $verb:$prev in
    help:help) mapfile -t COMPREPLY < <(compgen -W '@verbs@ @pages@' -- "$cur") && return ;;
    # @arguments@
  esac
  case $verb in
    # @options@
  esac
  case $verb:$cur in
    *:-*) ;;
    inspect:* | acquire:* | renew:* | release:* | check:*) _dlock_keys "$cur" ;;
  esac
} && complete -F _dlock dlock
