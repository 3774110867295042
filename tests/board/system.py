"""The software of an emulated board: Debian 12 for armhf with systemd, a kernel, and the disk that it starts from.

Debian's armmp kernel needs modules to reach its disk; they come in an initramfs of BusyBox and nothing else.
"""

import hashlib
import os
import shutil
import stat
import tempfile
from pathlib import Path

from tests.arm import debian
from tests.arm.machine import enter, run

_PACKAGES = ("alsa-utils", "kmod", "make", "systemd", "systemd-sysv", "udev")
# ext4 asks for CRC32C by a name that modules.dep does not know.
_DISK_MODULES = ("crc32c_generic", "virtio_mmio", "virtio_blk", "ext4")
_INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /root
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs devtmpfs /dev
for module in {modules}; do /bin/busybox insmod /modules/$module; done
until [ -b /dev/vda ]; do /bin/busybox sleep 0.1; done
/bin/busybox mount -t ext4 /dev/vda /root
exec /bin/busybox switch_root /root /lib/systemd/systemd
"""
# The host leaves scripts in a shared folder; the board runs them one by one and puts output and status beside them.
_AGENT = """#!/bin/sh
modprobe 9pnet_virtio
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 share /share
while :; do
    for job in /share/jobs/*.sh; do
        [ -e "$job" ] || continue
        mv "$job" "${job%.sh}.running"
        sh "${job%.sh}.running" >"${job%.sh}.out" 2>&1 </dev/null
        echo $? >"${job%.sh}.part"
        mv "${job%.sh}.part" "${job%.sh}.status"
    done
    sleep 0.5
done
"""
_FILES = {
    "etc/fstab": "/dev/vda / ext4 defaults 0 1\n",
    "etc/hostname": "board\n",
    "etc/modules-load.d/board.conf": "snd-aloop\n",
    "etc/systemd/network/board.network": (
        "[Match]\nType=ether\n[Network]\nAddress=10.0.2.15/24\nGateway=10.0.2.2\nLinkLocalAddressing=no\n"
    ),
    "etc/systemd/system/agent.service": (
        "[Service]\nExecStart=/bin/sh /usr/local/sbin/agent\n[Install]\nWantedBy=multi-user.target\n"
    ),
    "usr/local/sbin/agent": _AGENT,
}
_UNUSED = ("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "fstrim.timer")
_SIZE = "1200M"
_BASE = debian.SYSTEMS[0]


def build(folder: Path) -> None:
    """Put disk.img, kernel and initramfs into a folder, unless they are there."""
    recipe = Path(__file__).read_bytes() + Path(debian.__file__).read_bytes()
    digest = hashlib.sha256(recipe).hexdigest()
    stamp = folder / "recipe"
    if stamp.exists() and stamp.read_text() == digest:
        return
    debian.build(_BASE.installed, _BASE)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        root = Path(scratch) / "root"
        run("cp", "-a", "--reflink=auto", _BASE.installed, root)
        _install_packages(root)
        _install_kernel(root, folder)
        _configure(root)
        run("mkfs.ext4", "-q", "-E", "root_owner=0:0", "-d", root, folder / "disk.img", _SIZE)
    stamp.write_text(digest)


def _install_packages(root: Path) -> None:
    """Install what a board has, and leave the kernel's and BusyBox' packages in /var/tmp/debs."""
    for name in ("resolv.conf", "hosts"):
        shutil.copy(Path("/etc") / name, root / "etc" / name)
    script = (
        f"set -e; apt-get update -qq; apt-get install -y -qq --no-install-recommends {' '.join(_PACKAGES)}; "
        "kernel=$(apt-cache depends linux-image-armmp | sed -n 's/.*Depends: //p' | head -n 1); "
        "mkdir /var/tmp/debs; cd /var/tmp/debs; apt-get download -qq busybox-static $kernel; "
        "apt-get clean; rm -rf /var/lib/apt/lists/*"
    )
    proxies = {name: os.environ[name] for name in ("http_proxy", "https_proxy") if name in os.environ}
    command = enter(root, "sh", "-c", script, sources=root.parent, DEBIAN_FRONTEND="noninteractive", **proxies)
    run(*command)


def _install_kernel(root: Path, folder: Path) -> None:
    """Unpack the kernel: installing it would build an initramfs under emulation, for ten minutes."""
    unpacked = root.parent / "unpacked"
    for package in (root / "var/tmp/debs").glob("*.deb"):
        run("dpkg-deb", "-x", package, unpacked)
    shutil.rmtree(root / "var/tmp/debs")
    version = next((unpacked / "lib/modules").iterdir()).name
    run("cp", "-a", unpacked / "lib/modules", root / "usr/lib/modules")
    run("depmod", "-b", root, version)
    shutil.copy(unpacked / f"boot/vmlinuz-{version}", folder / "kernel")
    busybox = next(path for path in (unpacked / "bin/busybox", unpacked / "usr/bin/busybox") if path.exists())
    modules = _with_dependencies(root / "usr/lib/modules" / version)
    files = {"init": _INIT.format(modules=" ".join(path.name for path in modules)).encode()}
    files |= {"bin/busybox": busybox.read_bytes()}
    files |= {f"modules/{path.name}": path.read_bytes() for path in modules}
    (folder / "initramfs").write_bytes(_cpio(files))


def _with_dependencies(folder: Path) -> list[Path]:
    """Return the modules that the disk needs, each after those that it needs itself."""
    needs = {}
    for line in (folder / "modules.dep").read_text().splitlines():
        path, _, others = line.partition(":")
        needs[Path(path).stem.replace("-", "_")] = (path, others.split())
    found: list[str] = []
    for name in _DISK_MODULES:
        if name in needs:  # else it is built in
            path, others = needs[name]
            found += [other for other in (*reversed(others), path) if other not in found]
    return [folder / path for path in found]


def _cpio(files: dict[str, bytes]) -> bytes:
    """Return an archive as the kernel unpacks it (Documentation/driver-api/early-userspace/buffer-format.rst)."""
    folders = sorted({str(parent) for name in files for parent in Path(name).parents} - {"."})
    entries = [(name, stat.S_IFDIR | 0o755, b"") for name in folders]
    entries += [(name, stat.S_IFREG | 0o755, data) for name, data in files.items()]
    entries += [("TRAILER!!!", 0, b"")]
    archive = bytearray()
    for number, (name, mode, data) in enumerate(entries, 1):
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
        archive += b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        archive += b"\0" * (-len(archive) % 4) + data
        archive += b"\0" * (-len(archive) % 4)
    return bytes(archive)


def _configure(root: Path) -> None:
    for name, text in _FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(text)
    (root / "share").mkdir()
    (root / "etc/machine-id").write_text("")
    run("systemctl", f"--root={root}", "enable", "agent.service", "systemd-networkd.service")
    run("systemctl", f"--root={root}", "mask", *_UNUSED)
