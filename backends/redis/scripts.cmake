# SPDX-License-Identifier: Apache-2.0
# Of which pieces, in which order, the scripts of Redis's recipes are made.

# Recipe fair. A file behind these arguments has pieces that come in place of its own: the clock of
# a test. The code of a fast path comes first, so that it runs before the functions of state are
# defined.
function(dlock_embed_fair header namespace)
  set(dir ${PROJECT_SOURCE_DIR}/backends/redis/fair)
  set(files ${ARGN} ${dir}/state.lua ${dir}/acquire.lua ${dir}/grants.lua ${dir}/inspect.lua)
  set(head clock+keys)
  dlock_embed_lua(${header} ${namespace} "${files}"
    acquire=${head}+acquire_free+state+acquire
    release=${head}+find_token+note_run+release_free+state+release
    renew=${head}+find_token+note_run+renew
    note_start=${head}+find_token+note_start
    check=${head}+check
    revoke=${head}+revoke
    starts=${head}+starts
    cancel=${head}+state+cancel
    force_release=${head}+state+force_release
    inspect=${head}+state+inspect)
endfunction()

# The named recipes.
function(dlock_embed_named header namespace)
  set(dir ${PROJECT_SOURCE_DIR}/backends/redis)
  set(scripts "")
  foreach(operation delete_stale force_release getset_acquire getset_renew grant inspect release renew set_acquire)
    list(APPEND scripts named_${operation}=clock+keys+value+state+${operation})
  endforeach()
  dlock_embed_lua(${header} ${namespace} "${dir}/named/named.lua;${dir}/fair/state.lua" ${scripts})
endfunction()
