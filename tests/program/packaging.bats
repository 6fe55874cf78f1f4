#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What is installed, removed and listed. $DLOCK: the binary, inside of its build directory.
load common

root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)

built=$(cd "$(dirname "$DLOCK")/.." && pwd)

@test "uninstall removes the files of cmake --install, and nothing else" {
  export DESTDIR=$PWD/root
  cmake --install "$built" --prefix /opt/d >/dev/null
  cp "$built/install_manifest.txt" manifest
  assert [ -x root/opt/d/bin/dlock ]
  assert_equal "$(find root -type f | wc -l)" "$(grep -c . manifest)"
  touch root/opt/d/bin/other
  cmake -DMANIFEST="$PWD/manifest" -P "$root/scripts/packaging/uninstall.cmake"
  assert_equal "$(find root -type f)" root/opt/d/bin/other
  # Twice is no failure.
  cmake -DMANIFEST="$PWD/manifest" -P "$root/scripts/packaging/uninstall.cmake"
  run -1 cmake -DMANIFEST="$PWD/none" -P "$root/scripts/packaging/uninstall.cmake"
  assert_output --partial 'nothing was installed from this build'
}

@test "the header of the version: with a commit, changed files, and without a repository" {
  command -v git >/dev/null || skip 'no git is installed'
  header() {
    cmake -DSOURCE="$PWD/tree" -DVERSION=1.2.3 -DHEADER="$PWD/v.hpp" \
      -P "$root/scripts/version.cmake"
    grep '^#define' v.hpp | tr '\n' ' '
  }
  mkdir tree
  assert_equal "$(header)" '#define DLOCK_VERSION "1.2.3" #define DLOCK_COMMIT "" '
  git init -q tree
  assert_equal "$(header)" '#define DLOCK_VERSION "1.2.3" #define DLOCK_COMMIT "" '
  echo 1 >tree/file
  git -C tree add file
  git -C tree -c user.name=n -c user.email=e -c commit.gpgsign=false commit -qm one
  commit=$(git -C tree rev-parse --short=12 HEAD)
  assert_equal "$(header)" "#define DLOCK_VERSION \"1.2.3\" #define DLOCK_COMMIT \"$commit\" "
  touch -d '1 minute ago' v.hpp
  before=$(stat -c %Y v.hpp)
  header
  assert_equal "$(stat -c %Y v.hpp)" "$before" # nothing is built for nothing
  echo 2 >tree/file
  assert_equal "$(header)" "#define DLOCK_VERSION \"1.2.3\" #define DLOCK_COMMIT \"$commit-dirty\" "
}

@test "the list of linked libraries and headers, as SPDX" {
  [ -e "$built/build.ninja" ] && command -v dpkg >/dev/null ||
    skip 'needs a build by Ninja on Debian'
  SOURCE_DATE_EPOCH=1700000000 "$root/scripts/sbom" "$built" >list
  if grep -qx 'DLOCK_SHARED_DEPS:BOOL=ON' "$built/CMakeCache.txt"; then
    libmd='libmd0 DYNAMIC_LINK'
  else
    libmd='libmd-dev STATIC_LINK'
  fi
  cat >check.py <<'PY'
import json, sys
libmd, linked = sys.argv[1:]
j = json.load(open("list"))
assert j["spdxVersion"] == "SPDX-2.3" and j["creationInfo"]["created"] == "2023-11-14T22:13:20Z"
names = {p["name"]: p for p in j["packages"]}
assert names["dlock"]["checksums"]
how = {}
for end in "relatedSpdxElement", "spdxElementId":
    how |= {r[end].removeprefix("SPDXRef-"): r["relationshipType"] for r in j["relationships"]}
assert names[libmd]["licenseConcluded"] == "BSD-3-Clause", names[libmd]
headers = names["linux-libc-dev"]
assert headers["licenseConcluded"].startswith("GPL-2.0-only"), headers
assert how[libmd] == linked, how
for name in "libexpected-dev", "nlohmann-json3-dev":
    assert how[name] == "BUILD_DEPENDENCY_OF", how
ids = [p["SPDXID"] for p in j["packages"]]
assert len(ids) == len(set(ids))
PY
  python3 check.py $libmd
  run -1 "$root/scripts/sbom" "$PWD"
  assert_output --partial 'usage: scripts/sbom BUILD_DIRECTORY'
}

@test "a .deb, in a directory with a space, names who publishes it" {
  command -v dpkg-shlibdeps >/dev/null && command -v file >/dev/null ||
    skip 'needs dpkg-dev and file'
  mkdir 'a tree'
  cd 'a tree'
  cat >CMakeLists.txt <<X
cmake_minimum_required(VERSION 3.25)
project(dlock VERSION 1.2.3 LANGUAGES NONE)
install(PROGRAMS prog DESTINATION bin RENAME dlock)
install(FILES prog DESTINATION share/zsh/site-functions RENAME _dlock)
install(FILES prog DESTINATION share/man/man1 RENAME dlock.1)
include("$root/scripts/packaging/package.cmake")
X
  touch CHANGELOG.md prog
  maintainer_of() {
    rm -rf b
    cmake -S . -B b -G Ninja "$@" >/dev/null
    (cd b && SOURCE_DATE_EPOCH=1700000000 cpack -G DEB -B "$PWD/deb" >/dev/null)
    dpkg-deb -f b/deb/dlock_1.2.3_*.deb Maintainer
  }
  assert_equal "$(maintainer_of)" 'The dlock authors <nobody@dlock.invalid>'
  assert_equal "$(maintainer_of -DDLOCK_MAINTAINER='A Team <team@example.org>')" \
    'A Team <team@example.org>'
  run -0 dpkg-deb -c b/deb/dlock_1.2.3_*.deb
  assert_line --regexp '^-rwxr-xr-x root/root .* 2023-11-14 .* ./usr/bin/dlock$'
  assert_line --regexp ' ./usr/share/zsh/vendor-completions/_dlock$'
}

@test "a package: its tarball needs no xz, two are the same, what lintian refuses has no checksum" {
  mkdir -p tree/scripts/packaging bin bare
  cp "$root/scripts/package" tree/scripts/
  touch tree/LICENSE tree/README.md tree/CHANGELOG.md tree/scripts/packaging/copyright
  for name in deps sbom; do ln -s /bin/true tree/scripts/$name; done
  cat >bin/cmake <<'STAND_IN'
#!/bin/bash
case $1 in
  --build) ;;
  --install)
    umask 077
    mkdir -p "$DESTDIR/usr/local/bin" && echo "#!/bin/sh" >"$DESTDIR/usr/local/bin/dlock"
    echo /usr/local/bin/dlock >"$2/install_manifest.txt"
    ;;
  *)
    printf '%s\n' 'CMAKE_PROJECT_VERSION:STATIC=1.2.3' \
      'DLOCK_MAINTAINER:STRING=N <n@n.invalid>' >"$5/CMakeCache.txt"
    ;;
esac
STAND_IN
  printf '#!/bin/sh\nmkdir -p "$4"; touch "$4/dlock_1.2.3_any.deb"\n' >bin/cpack
  printf '#!/bin/sh\necho "E: dlock: such-a-tag"\n[ ! -e bad ]\n' >bin/lintian
  chmod +x bin/*
  mkdir one two two.build
  touch one/dlock_1.2.3-9_any.deb # of another day
  echo /opt/bin/dlock >two.build/install_manifest.txt
  for out in one two; do
    PATH=$PWD/bin:$PATH SOURCE_DATE_EPOCH=1700000000 run -0 tree/scripts/package -o $out \
      -B $out.build
    assert_line --partial 'the .deb names nobody as its maintainer'
  done
  assert_equal "$(cat one/SHA256SUMS)" "$(cat two/SHA256SUMS)"
  assert_equal "$(cut -c 67- one/SHA256SUMS | head -n 1)" dlock_1.2.3_any.deb
  # `uninstall` knows what was installed before, and nothing that went into the package.
  assert_equal "$(cat two.build/install_manifest.txt)" /opt/bin/dlock
  assert [ ! -e one.build/install_manifest.txt ]
  tarball=dlock-1.2.3-linux-$(uname -m).tar
  for name in tar gzip; do ln -s "$(command -v $name)" bare/; done
  mkdir prefix
  PATH=$PWD/bare "$(command -v tar)" -C prefix --strip-components=1 -xf one/$tarball.*
  run -0 find prefix -type f -printf '%m %P\n'
  assert_line '755 bin/dlock'
  assert_line '644 share/doc/dlock/LICENSE'
  touch two/bad
  PATH=$PWD/bin:$PATH SOURCE_DATE_EPOCH=1700000000 run -1 tree/scripts/package -o two -B two.build
  assert_line 'E: dlock: such-a-tag'
  assert [ ! -e two/SHA256SUMS ]
}

@test "the container: no backend of its own, and a run without one is 78" {
  file=$root/scripts/packaging/Containerfile
  run -1 grep -E '^ *(ENV|ARG)|^[^#]*DLOCK_BACKEND' "$file"
  sed -n "s/^ && echo '\(.*\)' >\/etc\/dlock\/config.toml$/\1/p" "$file" >config.toml
  assert_equal "$(cat config.toml)" 'require-backend = true'
  run -78 env -i XDG_CONFIG_HOME=/nonexistent "$DLOCK" run --config config.toml --key k -- true
  assert_output --partial 'no backend is given, and config.toml:1 requires one (require-backend)'
  # Each example names one.
  sed -n 's/^# .* dlock \(run .*\)/\1/p' "$file" >examples
  assert_equal "$(wc -l <examples)" 2
  run -1 grep -v -e ' -b ' examples
}

@test "a static program needs no other file" {
  grep -qx 'DLOCK_STATIC:BOOL=ON' "$built/CMakeCache.txt" || skip 'not built with DLOCK_STATIC'
  [ "$(id -u)" = 0 ] || skip 'needs root'
  mkdir -p root/proc
  cp "$DLOCK" root/dlock
  in_root() { unshare -m sh -c 'mount --bind /proc root/proc && exec chroot root "$@"' sh "$@"; }
  run -0 in_root /dlock run -b file:/ --key k -- /dlock inspect -b file:/ k
  assert_output --partial held
  run -69 in_root /dlock inspect -b redis://localhost:1 k
  assert_output --partial 'localhost'
}
