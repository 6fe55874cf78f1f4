# SPDX-License-Identifier: Apache-2.0
# A target sees only its own headers and those of the targets it links: `#include "core/lease.hpp"`
# resolves through an include root that holds nothing but the directories named here. So a
# dependency in the wrong direction does not compile.
function(dlock_headers target)
  set(root ${CMAKE_BINARY_DIR}/include_roots/${target})
  foreach(dir IN LISTS ARGN)
    cmake_path(GET dir FILENAME name)
    file(MAKE_DIRECTORY ${root})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${dir} ${root}/${name} SYMBOLIC)
  endforeach()
  target_include_directories(${target} PUBLIC ${root})
endfunction()
