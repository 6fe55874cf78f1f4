#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tries the dlock of an arm64 package on Debian's arm64 kernel, in a machine that QEMU computes:
`boot.py PACKAGE.deb`. `init` beside this file is all that runs there, and says each step. Redis is
on this machine, which the other one reaches as 10.0.2.2. Ends with 0 if all steps passed."""
import os, pathlib, select, shutil, subprocess, sys, tempfile, time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))
from ports import free_port  # noqa: E402
from store import die_with_parent  # noqa: E402

BOUND = 900  # seconds, for an emulated machine beside others
# In the order of their needs; Debian's kernel has all else of it built in.
MODULES = ("drivers/virtio/virtio_mmio", "net/core/failover", "drivers/net/net_failover",
           "drivers/net/virtio_net")


def unpack(to, *packages):
    subprocess.run([ROOT / "scripts/packaging/unpack", "arm64", to, *packages], check=True)


def kernel(work):
    """The package of the newest one, of which linux-image-arm64 has nothing but the name."""
    unpack(work / "name", "linux-image-arm64")
    needs = subprocess.run(["dpkg-query", f"--admindir={work}/name/var/lib/dpkg", "-W",
                            "-f=${Depends}", "linux-image-arm64"], check=True,
                           capture_output=True, text=True).stdout
    return needs.split()[0]


def image(work, package, url):
    """(kernel, initramfs)"""
    debian, root = work / "debian", work / "root"
    unpack(debian, kernel(work), "libc6", "libgcc-s1", "busybox-static", "strace", "libunwind8",
           "liblzma5")
    subprocess.run(["dpkg-deb", "-x", package, root], check=True)
    for directory in "bin", "modules", "lib":
        (root / directory).mkdir(exist_ok=True)
    shutil.copy(debian / "bin/busybox", root / "bin")
    shutil.copy(debian / "usr/bin/strace", root / "bin")
    shutil.copy(HERE / "init", root)
    for libraries in "lib/aarch64-linux-gnu", "usr/lib/aarch64-linux-gnu":
        shutil.copytree(debian / libraries, root / "lib/aarch64-linux-gnu", symlinks=True,
                        dirs_exist_ok=True, ignore=shutil.ignore_patterns("gconv"))
    (root / "lib/ld-linux-aarch64.so.1").symlink_to("aarch64-linux-gnu/ld-linux-aarch64.so.1")
    modules, = (debian / "lib/modules").iterdir()
    for module in MODULES:
        shutil.copy(modules / f"kernel/{module}.ko", root / "modules")
    (root / "modules/order").write_text(
        "".join(f"{pathlib.Path(module).name}.ko\n" for module in MODULES))
    (root / "redis").write_text(url + "\n")
    names = "\0".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    with open(work / "initramfs", "wb") as to:
        subprocess.run(["cpio", "-0", "-o", "--quiet", "-H", "newc", "-R", "0:0"], cwd=root,
                       input=names.encode(), stdout=to, check=True)
    image, = (debian / "boot").glob("vmlinuz-*")
    return image, work / "initramfs"


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: boot.py PACKAGE.deb")
    with tempfile.TemporaryDirectory(prefix="dlock.") as work:
        work, port, started = pathlib.Path(work), free_port(), []
        try:
            # Debian's redis-tools has the server under another name.
            started.append(subprocess.Popen(
                ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""],
                executable=shutil.which("redis-server") or shutil.which("redis-check-rdb"),
                cwd=work, stdout=subprocess.DEVNULL, preexec_fn=die_with_parent))
            vmlinuz, initramfs = image(work, sys.argv[1], f"redis://10.0.2.2:{port}")
            machine = subprocess.Popen(
                ["qemu-system-aarch64", "-M", "virt", "-cpu", "cortex-a72", "-smp", "2", "-m",
                 "512", "-nographic", "-monitor", "none", "-no-reboot", "-kernel", vmlinuz,
                 "-initrd", initramfs, "-append", "console=ttyAMA0 quiet panic=-1",
                 "-netdev", "user,id=net", "-device", "virtio-net-device,netdev=net"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, preexec_fn=die_with_parent)
            started.append(machine)
            passed = watch(machine.stdout)
        finally:
            for process in started:
                process.kill()
                process.wait()
    sys.exit(0 if passed else 1)


def watch(console):
    """Prints what the machine says; whether all steps passed."""
    text, until = b"", time.monotonic() + BOUND
    while True:
        if not select.select([console], [], [], max(0, until - time.monotonic()))[0]:
            print(f"boot.py: no end within {BOUND} s")
            return False
        part = os.read(console.fileno(), 65536)
        if not part:
            print("boot.py: the machine went off before its steps ended")
            return False
        *lines, text = (text + part).replace(b"\r", b"").split(b"\n")
        for line in lines:
            print(line.decode(errors="replace"), flush=True)
            if line.startswith(b"boot: "):
                return line == b"boot: all steps passed"


main()
