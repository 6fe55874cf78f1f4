# SPDX-License-Identifier: Apache-2.0
# The target `uninstall`, and what CPack writes into a .deb. scripts/package makes all that is
# published.
set(packaging ${CMAKE_CURRENT_LIST_DIR})
add_custom_target(uninstall
  COMMAND ${CMAKE_COMMAND} -DMANIFEST=${PROJECT_BINARY_DIR}/install_manifest.txt
    -P ${packaging}/uninstall.cmake VERBATIM)

set(CPACK_GENERATOR DEB)
# Nobody reads mail to .invalid (RFC 2606), so whoever publishes a package must give a name.
set(DLOCK_MAINTAINER "The dlock authors <nobody@dlock.invalid>" CACHE STRING
  "Who publishes the .deb: the Maintainer field, as in \"Name <address>\"")
set(CPACK_PACKAGE_CONTACT ${DLOCK_MAINTAINER})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# For TLS, and for ways to log in to MySQL other than its own password.
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "ca-certificates, libmariadb3")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "runs a command while it holds a distributed lock")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"dlock takes a lock on a directory, Redis, ZooKeeper, MySQL, MariaDB, PostgreSQL
or etcd, runs a command while the lock is held, and guarantees that the command
and all it started are dead before the lock is given to another: also when dlock
is killed, stopped or hangs. Every grant has a fencing token that only rises.")
set(CPACK_PRE_BUILD_SCRIPTS ${packaging}/debian.cmake)
set(CPACK_DLOCK_PACKAGING ${packaging})
set(CPACK_DLOCK_CHANGES ${PROJECT_SOURCE_DIR}/CHANGELOG.md)
if(DLOCK_SHARED_DEPS)
  set(CPACK_DLOCK_ONE_FILE OFF)
else()
  set(CPACK_DLOCK_ONE_FILE ON)
endif()
include(CPack)
