# SPDX-License-Identifier: Apache-2.0
# For `cmake --toolchain`: builds for arm64 on another machine, with Debian's cross compiler.
# DLOCK_SYSROOT has Debian's arm64 libraries (scripts/packaging/unpack), and no libc: that is the
# compiler's own. Header-only libraries are those of this machine.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES DLOCK_SYSROOT)
set(CMAKE_FIND_ROOT_PATH ${DLOCK_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE BOTH)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)
set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES
  ${DLOCK_SYSROOT}/usr/include ${DLOCK_SYSROOT}/usr/include/aarch64-linux-gnu)
# The build asks dlock for its options.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
