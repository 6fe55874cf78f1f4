#compdef dlock
# zsh completion of dlock; generated from its table of options
# where the locks are: -b, else what variables and files say
_dlock_backend() {
  local url i=${words[(I)(-b|--backend)]}
  ((i)) && url=${(Q)words[i + 1]} || url=${${(Q)words[(r)--backend=*]}#--backend=}
  [[ -n $url ]] || url=$(dlock config 2>/dev/null | sed -n 's/^backend = "\([^"]*\)".*/\1/p')
  print -r -- ${url:-file:}
}
_dlock_keys() {
  local url=$(_dlock_backend)
  [[ $url == file:* ]] &&
    compadd -- ${(f)"$(dlock inspect -b $url --no-heading -o KEY 2>/dev/null)"}
}
_dlock_urls() { compadd -S '' -- @urls@; }
_dlock_recipes() {
  case $(_dlock_backend) in
    # @recipes@
  esac
}
_dlock() {
  local -a verbs=(
    # @verbs@
    'help:print the options of a command'
  )
  if ((CURRENT == 2)); then _describe command verbs; return; fi
  local verb=$words[2]
  shift words; ((CURRENT--))
  case $verb in
    help) _describe command verbs; compadd -- @pages@ ;;
    # @options@
  esac
}
_dlock "$@"
