# fish completion of dlock; generated from its table of options
# where the locks are: -b, else what variables and files say
function __dlock_backend
  set -l next no
  for word in (commandline -opc)
    if test $next = yes
      echo $word
      return
    end
    switch $word
      case -b --backend
        set next yes
      case '--backend=*'
        string replace -- --backend= '' $word
        return
    end
  end
  set -l url (dlock config 2>/dev/null | string replace -rf '^backend = "([^"]*)".*' '$1')
  test -n "$url"; and echo $url; or echo file:
end
function __dlock_keys
  set -l url (__dlock_backend)
  string match -q 'file:*' -- $url; and dlock inspect -b $url --no-heading -o KEY 2>/dev/null
end
function __dlock_recipes
  switch (__dlock_backend)
    # @recipes@
  end
end
complete -c dlock -n __fish_use_subcommand -f
# @verbs@
complete -c dlock -n __fish_use_subcommand -f -a help -d 'print the options of a command'
complete -c dlock -n '__fish_seen_subcommand_from help' -f -a '@verbs@ @pages@'
complete -c dlock -n '__fish_seen_subcommand_from inspect acquire renew release check' -f -a '(__dlock_keys)'
# @options@
