"""The life of the Debian package in a root: an older one installed and started, upgraded, removed and purged.

A 32-bit root then believes in a 64-bit kernel, as on a Pi 4 with a 32-bit system.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

from deb.__main__ import version
from tests.arm.machine import enter, run

_OLDER = "0.0.1"
# What Python and the shell are told of the kernel.
_KERNEL = "import os; os.uname = lambda real=os.uname: os.uname_result((*real()[:4], 'aarch64'))\n"
_UNAME = '#!/bin/sh\n[ "$1" = -m ] && echo aarch64 || exec /usr/bin/uname "$@"\n'
_LIFE = f"""set -eu
service=/etc/systemd/system/auricle-edge.service
say() {{ echo "$(cut -d. -f1 /proc/uptime) $*"; }}
say installing; dpkg --install /mnt/older.deb
test -e $service -a -e /etc/auricle/edge.toml -a ! -e /etc/systemd/system/multi-user.target.wants/auricle-edge.service
auricle-edge --version | grep '^auricle-edge .*TensorFlow Lite 2.17.1 (pymicro-wakeword 2.5.0, SHA-256 '
say starting; runuser -u auricle -- auricle-edge run --config /etc/auricle/edge.toml >/tmp/log 2>&1 &
until grep -q listening /var/lib/auricle/status.json 2>/dev/null; do
    kill -0 $! || {{ cat /tmp/log; exit 1; }}
    sleep 0.5
done
kill -TERM $!; wait $! || true
say upgrading; echo '# mine' >>/etc/auricle/edge.toml; old=$(readlink /opt/auricle-edge/current)
dpkg --install /mnt/newer.deb
test "$(dpkg-query -W -f '${{Version}}' auricle-edge)" = {version()}
test "$(readlink /opt/auricle-edge/current)" != "$old" -a ! -e /opt/auricle-edge/$old
grep -q '^# mine' /etc/auricle/edge.toml; auricle-edge --version
say removing; dpkg --remove auricle-edge
test ! -e /opt/auricle-edge -a ! -e /usr/local/bin/auricle-edge -a ! -e $service
test -e /var/lib/auricle/state.sqlite3 -a -e /etc/auricle/edge.toml; getent passwd auricle
say purging; dpkg --purge auricle-edge
test ! -e /var/lib/auricle -a ! -e /etc/auricle -a ! -e /usr/share/auricle; ! getent passwd auricle
say done
"""


def live(root: Path, package: Path, *, another_kernel: bool) -> None:
    """Take the package through its life in a copy of a root.

    Raises:
        ArmError: a step failed; with all that was said.
    """
    with tempfile.TemporaryDirectory(dir=root.parent, prefix=f".{root.name}-deb-") as folder:
        copy, given = Path(folder) / "root", Path(folder) / "given"
        run("cp", "-a", "--reflink=auto", root, copy)
        if another_kernel:
            (copy / "usr/lib/python3/dist-packages/kernel.pth").write_text(_KERNEL)
            (copy / "usr/local/bin/uname").write_text(_UNAME)
            (copy / "usr/local/bin/uname").chmod(0o755)
        given.mkdir()
        shutil.copy(package, given / "newer.deb")
        _repack(package, given / "older.deb")
        (given / "life.sh").write_text(_LIFE)
        path = {"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        print(run(*enter(copy, "sh", "/mnt/life.sh", sources=given, **path)), flush=True)


def _repack(package: Path, older: Path) -> None:
    """Write the same package with an older version."""
    with tempfile.TemporaryDirectory() as folder:
        run("dpkg-deb", "--raw-extract", package, folder)
        control = Path(folder) / "DEBIAN/control"
        control.write_text(control.read_text().replace(f"Version: {version()}\n", f"Version: {_OLDER}\n"))
        command = ["dpkg-deb", "--root-owner-group", "-Znone", "--build", folder, older]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
