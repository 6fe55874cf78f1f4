# SPDX-License-Identifier: Apache-2.0
# Recipe fair. A file behind these arguments has pieces that come in place of its own: the clock of
# a test.
function(dlock_embed_fair header namespace)
  set(dir ${PROJECT_SOURCE_DIR}/backends/redis/fair)
  set(files ${ARGN} ${dir}/state.lua ${dir}/acquire.lua ${dir}/grants.lua ${dir}/inspect.lua)
  dlock_embed_lua(${header} ${namespace} "${files}"
    acquire release renew note_start check revoke starts cancel force_release inspect)
endfunction()

# The named recipes.
function(dlock_embed_named header namespace)
  set(dir ${PROJECT_SOURCE_DIR}/backends/redis)
  set(scripts delete_stale force_release getset_acquire getset_renew grant inspect release renew
    set_acquire)
  list(TRANSFORM scripts REPLACE "(.+)" "named_\\1=\\1")
  dlock_embed_lua(${header} ${namespace} "${dir}/named/named.lua;${dir}/fair/state.lua" ${scripts})
endfunction()
