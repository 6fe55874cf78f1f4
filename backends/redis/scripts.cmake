# SPDX-License-Identifier: Apache-2.0
# Of which files, in which order, the scripts of Redis's recipes are made: arguments of
# dlock_embed_lua. The head of each file says what those before it define.

# Recipe fair, in DIR, each behind the file CLOCK. The code of a fast path comes first, so that it
# runs before the functions of state.lua are defined.
function(dlock_fair_scripts out dir clock)
  set(head ${clock}+${dir}/keys.lua)
  set(scripts
    acquire=${head}+${dir}/acquire_free.lua+${dir}/state.lua+${dir}/acquire.lua
    release=${head}+${dir}/find_token.lua+${dir}/note_run.lua+${dir}/release_free.lua+${dir}/state.lua+${dir}/release.lua
    renew=${head}+${dir}/find_token.lua+${dir}/note_run.lua+${dir}/renew.lua
    note_start=${head}+${dir}/find_token.lua+${dir}/note_start.lua)
  foreach(operation check revoke starts)
    list(APPEND scripts ${operation}=${head}+${dir}/${operation}.lua)
  endforeach()
  foreach(operation cancel force_release inspect)
    list(APPEND scripts ${operation}=${head}+${dir}/state.lua+${dir}/${operation}.lua)
  endforeach()
  set(${out} ${scripts} PARENT_SCOPE)
endfunction()

# The named recipes, in DIR, each behind the file CLOCK.
function(dlock_named_scripts out dir clock)
  set(scripts "")
  foreach(operation delete_stale force_release getset_acquire getset_renew grant look release renew set_acquire)
    list(APPEND scripts named_${operation}=${clock}+${dir}/state.lua+${dir}/${operation}.lua)
  endforeach()
  set(${out} ${scripts} PARENT_SCOPE)
endfunction()
