#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# usage: path_operations.py DLOCK
# Runs a few commands in a lock directory of a group under strace(1): below it no symbolic link is
# followed, no path has more than one name, and no mode is changed by name. 77: it cannot be tested
# here.
import glob, os, re, shutil, subprocess, sys, tempfile

dlock = sys.argv[1]
if os.geteuid() != 0 or not shutil.which("strace"):
    print("skipped: needs root and strace")
    sys.exit(77)

# What is allowed with one name in an open directory, and which flag keeps it from following a link
# there.
never_follow = {"mknodat", "mkdirat", "unlinkat", "renameat", "renameat2", "mkdir", "unlink",
                "rmdir"}
guarded = {"openat": "O_NOFOLLOW", "open": "O_NOFOLLOW", "openat2": "RESOLVE_NO_SYMLINKS",
           "newfstatat": "AT_SYMLINK_NOFOLLOW", "statx": "AT_SYMLINK_NOFOLLOW",
           "fchownat": "AT_SYMLINK_NOFOLLOW"}


def judge(call, text, locks):
    """None: fine, or nothing below `locks`."""
    quoted = re.findall(r'(AT_FDCWD<[^>]*>|\d+<[^>]*>)?(?:, |\()?"((?:[^"\\]|\\.)*)"', text)
    for at, name in quoted:
        base = re.sub(r"^[^<]*<|>$", "", at) if at else ""
        if name == "" and "AT_EMPTY_PATH" in text:
            continue
        full = name if name.startswith("/") else f"{base}/{name}"
        if not full.startswith(locks + "/"):
            continue
        if name == ".":
            continue
        names = full[len(locks) + 1:] if name.startswith("/") else name
        if "/" in names:
            return "a path of more than one name"
        if call in guarded and guarded[call] not in text:
            return f"without {guarded[call]}"
        if call == "openat" and name.startswith("/"):
            return "opened by its path"
        if call not in guarded and call not in never_follow and call not in ("lstat", "readlink"):
            return "may follow a link"
    return None


with tempfile.TemporaryDirectory() as outside:
    locks = os.path.realpath(outside) + "/locks"
    os.chmod(outside, 0o755)
    os.mkdir(locks)
    os.chown(locks, 0, 12000)
    os.chmod(locks, 0o2770)
    seen = 0
    wrong = []

    def traced(*arguments, status=0, without=None):
        global seen
        # One file per thread, or their lines would be mixed.
        log = tempfile.mkdtemp(dir=outside) + "/of"
        command = ["strace", "-ff", "-y", "-q", "-s", "4096", "-o", log,
                   "-e", "trace=file,fchmod,fchown,openat2,fchmodat,mknodat", dlock]
        ended = subprocess.run(command + list(arguments), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, timeout=60, text=True,
                               preexec_fn=lambda: os.umask(0o77))
        if ended.returncode != status:
            print(f"{arguments}: {ended.returncode}, {ended.stderr}")
            sys.exit(77 if "ptrace" in ended.stderr.lower() else 1)
        for line in (text for name in glob.glob(log + ".*") for text in open(name)):
            if without and without in line:
                wrong.append(f"not to be used here: {line.strip()}")
            found = re.match(r"(\w+)\((.*)", line)
            if not found or locks not in line:
                continue
            seen += 1
            if found[1] in ("execve",):
                continue
            why = judge(found[1], found[2], locks)
            if why:
                wrong.append(f"{why}: {line.strip()}")
        return ended.stdout.strip()

    for recipe in ("lease", "flock"):
        at = ["-b", f"file:{locks}?recipe={recipe}"]
        traced("run", *at, "--key", recipe, "--", "true")  # this creates all files
        url = f"file:{locks}?recipe={recipe}"
        nested = ["sh", "-c", f"'{dlock}' inspect -b '{url}' {recipe}; "
                  f"'{dlock}' run --no-reentrant -b '{url}' --key {recipe} -w 4s -E 9 -- true"]
        # Looked at, and waited for. The table of locks grows with the square of those who wait for
        # one.
        traced("run", *at, "--key", recipe, "--", *nested, status=9, without='"/proc/locks"')
        traced("inspect", *at)
        traced("release", *at, "--key", recipe, "--force", "--yes", status=75)
    at = ["-b", f"file:{locks}"]
    traced("run", *at, "--once-per", "1h", "--key", "note", "--", "true")
    handle = traced("acquire", *at, "--key", "note", "--ttl", "1m")
    asked = f"'{dlock}' release -b 'file:{locks}' --key revoked --revoke; exec sleep 60"
    traced("run", *at, "--key", "revoked", "--", "sh", "-c", asked, status=122)
    traced("renew", *at, "--key", "note", "--handle", handle)
    traced("release", *at, "--key", "note", "--handle", handle)

    for line in wrong[:20]:
        print(line)
    print(f"{seen} operations below the lock directory, {len(wrong)} wrong")
    sys.exit(1 if wrong or seen < 100 else 0)
