# SPDX-License-Identifier: Apache-2.0
# Runs before the files of the .deb are packed: puts them where Debian wants them, and gives all of
# them the same time.
cmake_minimum_required(VERSION 3.25)
set(root ${CPACK_TEMPORARY_DIRECTORY}/usr)
set(share ${root}/share)
set(doc ${share}/doc/dlock)
set(epoch $ENV{SOURCE_DATE_EPOCH})
if(NOT epoch)
  string(TIMESTAMP epoch %s UTC)
endif()
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(RENAME ${share}/zsh/site-functions ${share}/zsh/vendor-completions)

file(COPY ${CPACK_DLOCK_PACKAGING}/copyright DESTINATION ${doc})
file(COPY_FILE ${CPACK_DLOCK_CHANGES} ${doc}/NEWS)
execute_process(COMMAND date -u -R -d @${epoch}
  OUTPUT_VARIABLE date OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
file(WRITE ${doc}/changelog "dlock (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * Made by scripts/package; what is new stands in NEWS.gz.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
if(CPACK_DLOCK_ONE_FILE)
  file(MAKE_DIRECTORY ${share}/lintian/overrides)
  file(COPY_FILE ${CPACK_DLOCK_PACKAGING}/lintian-overrides ${share}/lintian/overrides/dlock)
endif()

file(GLOB pages ${share}/man/man*/*)
run(gzip -9n ${pages} ${doc}/changelog ${doc}/NEWS)
run(find ${CPACK_TEMPORARY_DIRECTORY} -type d -exec chmod 755 {} +)
run(find ${share} -type f -exec chmod 644 {} +)
run(find ${CPACK_TEMPORARY_DIRECTORY} -exec touch -h -d @${epoch} {} +)
