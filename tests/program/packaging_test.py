# SPDX-License-Identifier: Apache-2.0
"""What is installed, removed and listed. DLOCK is inside of its build."""
import glob, os, re, shutil
import harness
from harness import DLOCK, ROOT, read, write

BUILT = os.path.realpath(os.path.dirname(DLOCK) + "/..")
PACKAGING = ROOT + "/scripts/packaging"
EPOCH = {"SOURCE_DATE_EPOCH": "1700000000"}
PROJECT = f"""cmake_minimum_required(VERSION 3.25)
project(dlock VERSION 1.2.3 LANGUAGES NONE)
install(PROGRAMS prog DESTINATION bin RENAME dlock)
install(FILES prog DESTINATION share/zsh/site-functions RENAME _dlock)
install(FILES prog DESTINATION share/man/man1 RENAME dlock.1)
include("{PACKAGING}/package.cmake")
"""
CMAKE = """#!/bin/bash
case $1 in
  --build) ;;
  --install)
    umask 077
    mkdir -p "$DESTDIR/usr/local/bin" && echo "#!/bin/sh" >"$DESTDIR/usr/local/bin/dlock"
    echo /usr/local/bin/dlock >"$2/install_manifest.txt"
    ;;
  *)
    printf '%s\\n' 'CMAKE_PROJECT_VERSION:STATIC=1.2.3' \\
      'DLOCK_MAINTAINER:STRING=N <n@n.invalid>' >"$5/CMakeCache.txt"
    echo "$*" >"$5/how"
    ;;
esac
"""


def files(root):
    return sorted(os.path.join(directory, name) for directory, _, names in os.walk(root)
                  for name in names)


def built_with(line):
    return line in read(BUILT + "/CMakeCache.txt").splitlines()


class Packaging(harness.Case):
    bound = 4 * harness.BOUND  # of scripts that start hundreds of programs

    def needs(self, *programs):
        for program in programs:
            if not shutil.which(program):
                self.skipTest(f"no {program} is installed")

    def test_install_and_uninstall(self):
        """The build has all that is installed; this is removed, and nothing else."""
        env = {"DESTDIR": self.dir + "/root"}
        self.program("cmake", "--install", BUILT, "--prefix", "/opt/d", env=env)
        manifest = read(BUILT + "/install_manifest.txt")
        write("manifest", manifest)
        self.assertTrue(os.access("root/opt/d/bin/dlock", os.X_OK))
        self.assertEqual(sorted("root" + name for name in manifest.split()), files("root"))
        for file in ("man/man1/dlock-run.1", "man/man7/dlock-backends.7",
                     "bash-completion/completions/dlock"):
            self.assertNotEqual("", read("root/opt/d/share/" + file), file)
        write("root/opt/d/bin/other")

        def uninstall(name, **more):
            return self.program("cmake", f"-DMANIFEST={self.dir}/{name}", "-P",
                                PACKAGING + "/uninstall.cmake", env=env, **more)
        for _ in "once", "twice":
            uninstall("manifest")
            self.assertEqual(["root/opt/d/bin/other"], files("root"))
        self.assertIn("nothing was installed from this build", uninstall("none", wanted=1).err)

    def test_version(self):
        """Its header: with a commit, changed files, and without a repository."""
        self.needs("git")

        def header():
            self.program("cmake", f"-DSOURCE={self.dir}/tree", "-DVERSION=1.2.3",
                         f"-DHEADER={self.dir}/v.hpp", "-P", ROOT + "/scripts/cmake/version.cmake")
            return re.findall('#define DLOCK_(VERSION|COMMIT) "(.*)"', read("v.hpp"))

        def git(*words):
            return self.program("git", "-C", "tree", "-c", "user.name=n", "-c", "user.email=e",
                                "-c", "commit.gpgsign=false", *words).out.strip()
        os.mkdir("tree")
        self.assertEqual([("VERSION", "1.2.3"), ("COMMIT", "")], header())
        git("init", "-q")
        self.assertEqual([("VERSION", "1.2.3"), ("COMMIT", "")], header())
        write("tree/file", "1\n")
        git("add", "file")
        git("commit", "-qm", "one")
        commit = git("rev-parse", "--short=12", "HEAD")
        self.assertEqual([("VERSION", "1.2.3"), ("COMMIT", commit)], header())
        os.utime("v.hpp", (1, 1))
        header()
        self.assertEqual(1, os.stat("v.hpp").st_mtime)  # nothing is built for nothing
        write("tree/file", "2\n")
        self.assertEqual([("VERSION", "1.2.3"), ("COMMIT", commit + "-dirty")], header())

    def test_sbom(self):
        """The list of linked libraries and headers, as SPDX."""
        self.needs("dpkg")
        if not os.path.exists(BUILT + "/build.ninja"):
            self.skipTest("not built by Ninja")
        listed = self.program(ROOT + "/scripts/sbom", BUILT, env=EPOCH).json
        self.assertEqual(("SPDX-2.3", "2023-11-14T22:13:20Z"),
                         (listed["spdxVersion"], listed["creationInfo"]["created"]))
        packages = {package["name"]: package for package in listed["packages"]}
        self.assertTrue(packages["dlock"]["checksums"])
        how = {}
        for end in "relatedSpdxElement", "spdxElementId":
            how.update((one[end].removeprefix("SPDXRef-"), one["relationshipType"])
                       for one in listed["relationships"])
        shared = built_with("DLOCK_SHARED_DEPS:BOOL=ON")
        for name, relation, licence in (
                ("libmd0" if shared else "libmd-dev",
                 "DYNAMIC_LINK" if shared else "STATIC_LINK", "BSD-3-Clause"),
                ("linux-libc-dev", None, "GPL-2.0-only"),
                ("libexpected-dev", "BUILD_DEPENDENCY_OF", ""),
                ("nlohmann-json3-dev", "BUILD_DEPENDENCY_OF", "")):
            self.assertEqual(relation or how[name], how[name], name)
            self.assertRegex(packages[name]["licenseConcluded"], "^" + licence)
        ids = [package["SPDXID"] for package in listed["packages"]]
        self.assertEqual(len(set(ids)), len(ids))
        done = self.program(ROOT + "/scripts/sbom", self.dir, wanted=1)
        self.assertIn("usage: scripts/sbom BUILD_DIRECTORY", done.err)

    def test_deb(self):
        """In a directory with a space; it names who publishes it."""
        self.needs("dpkg-shlibdeps", "file")
        tree = self.dir + "/a tree"
        os.mkdir(tree)
        write(tree + "/CMakeLists.txt", PROJECT)
        write(tree + "/CHANGELOG.md")
        write(tree + "/prog")
        for maintainer, options in (
                ("The dlock authors <nobody@dlock.invalid>", []),
                ("A Team <team@example.org>", ["-DDLOCK_MAINTAINER=A Team <team@example.org>"])):
            shutil.rmtree(tree + "/b", ignore_errors=True)
            self.program("cmake", "-S", ".", "-B", "b", "-G", "Ninja", *options, cwd=tree)
            self.program("cpack", "-G", "DEB", "-B", tree + "/b/deb", cwd=tree + "/b", env=EPOCH)
            package, = glob.glob("a tree/b/deb/dlock_1.2.3_*.deb")
            done = self.program("dpkg-deb", "-f", package, "Maintainer")
            self.assertEqual(maintainer + "\n", done.out)
        done = self.program("dpkg-deb", "-c", package)
        self.assertLine(r"-rwxr-xr-x root/root .* 2023-11-14 .* \./usr/bin/dlock", done)
        self.assertLine(r".* \./usr/share/zsh/vendor-completions/_dlock", done)

    def test_package(self):
        """Its tarball needs no xz, two are the same, what lintian refuses has no checksum; it is
        made for arm64, too."""
        for directory in "tree/scripts/packaging", "bin", "bare", "one", "two", "two.build":
            os.makedirs(directory)
        shutil.copy(ROOT + "/scripts/package", "tree/scripts/")
        for name in "LICENSE", "README.md", "CHANGELOG.md", "scripts/packaging/copyright":
            write("tree/" + name)
        for name in "deps", "sbom", "packaging/unpack":
            os.symlink("/bin/true", "tree/scripts/" + name)
        write("bin/cmake", CMAKE, 0o700)
        write("bin/cpack", '#!/bin/sh\nmkdir -p "$4"; touch "$4/dlock_1.2.3_$DEB_HOST_ARCH.deb"\n',
              0o700)
        write("bin/lintian", '#!/bin/sh\necho "E: dlock: such-a-tag"\n[ ! -e bad ]\n', 0o700)
        write("one/dlock_1.2.3-9_any.deb")  # of another day
        write("two.build/install_manifest.txt", "/opt/bin/dlock\n")

        native = self.program("dpkg", "--print-architecture").out.strip()

        def package(out, *archs, **more):
            words = [word for arch in archs for word in ("--arch", arch)]
            return self.program(
                "tree/scripts/package", "-o", out, "-B", out + ".build", *words,
                env={**EPOCH, "PATH": f"{self.dir}/bin:{self.env['PATH']}"}, **more)
        for out in "one", "two":
            done = package(out)
            self.assertIn("the .deb names nobody as its maintainer", done.out + done.err)
        sums = read("one/SHA256SUMS")
        self.assertEqual(sums, read("two/SHA256SUMS"))
        self.assertEqual(f"dlock_1.2.3_{native}.deb", sums.splitlines()[0][66:])
        if native != "arm64":
            package("both", native, "arm64")
            self.assertEqual([f"dlock_1.2.3_{native}.deb", "dlock_1.2.3_arm64.deb"],
                             re.findall(r"\S+\.deb$", read("both/SHA256SUMS"), re.M))
            self.assertEqual(sums, "".join(read("both/SHA256SUMS").splitlines(True)[:3]))
            self.assertIn("dlock-1.2.3-linux-aarch64.tar.gz\n", read("both/SHA256SUMS"))
            self.assertIn("packaging/arm64.cmake", read("both.build-arm64/how"))
            self.assertNotIn("arm64", read("both.build/how"))
        self.assertIn("is neither this machine's", package("two", "s390x", wanted=64).err)
        # `uninstall` knows what was installed before, and nothing that went into the package.
        self.assertEqual("/opt/bin/dlock\n", read("two.build/install_manifest.txt"))
        self.assertFalse(os.path.exists("one.build/install_manifest.txt"))
        for name in "tar", "gzip":
            os.symlink(shutil.which(name), "bare/" + name)
        tarball, = glob.glob(f"one/dlock-1.2.3-linux-{os.uname().machine}.tar.*")
        os.mkdir("prefix")
        self.program(shutil.which("tar"), "-C", "prefix", "--strip-components=1", "-xf", tarball,
                     env={"PATH": self.dir + "/bare"})
        modes = {name: os.stat(name).st_mode & 0o7777 for name in files("prefix")}
        self.assertEqual((0o755, 0o644), (modes["prefix/bin/dlock"],
                                          modes["prefix/share/doc/dlock/LICENSE"]))
        write("two/bad")
        done = package("two", wanted=1)
        self.assertLine("E: dlock: such-a-tag", done.out + done.err)
        self.assertFalse(os.path.exists("two/SHA256SUMS"))

    def test_container(self):
        """No backend of its own; a run without one is 78; its examples name one."""
        text = read(PACKAGING + "/Containerfile")
        self.assertNoLine(" *(ENV|ARG)|[^#\n]*DLOCK_BACKEND", text)
        config = re.search(r"(?m)^ && echo '(.*)' >/etc/dlock/config\.toml$", text)[1]
        self.assertEqual("require-backend = true", config)
        write("config.toml", config + "\n")
        self.refused(78, "no backend is given, and config.toml:1 requires one (require-backend)",
                     "run", "--config", "config.toml", "--key", "k", "--", "true",
                     before=["env", "-i", "XDG_CONFIG_HOME=/nonexistent"])
        examples = re.findall("(?m)^# .* dlock (run .*)", text)
        self.assertEqual([True] * 2, [" -b " in line for line in examples])

    def test_static(self):
        """A static program needs no other file."""
        if not built_with("DLOCK_STATIC:BOOL=ON"):
            self.skipTest("not built with DLOCK_STATIC")
        if os.getuid() != 0:
            self.skipTest("needs root")
        os.makedirs("root/proc")
        shutil.copy(DLOCK, "root/dlock")

        def in_root(*words, **more):
            return self.program("unshare", "-m", "sh", "-c", "mount --bind /proc root/proc && "
                                'exec chroot root "$@"', "sh", "/dlock", *words, **more)
        done = in_root("run", "-b", "file:/", "--key", "k", "--", "/dlock", "inspect", "-b",
                       "file:/", "k")
        self.assertIn("held", done.out)
        done = in_root("inspect", "-b", "redis://localhost:1", "k", wanted=69)
        self.assertIn("localhost", done.err)


harness.main()
