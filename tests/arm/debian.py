"""Builds roots of Debian for ARM: the same Python, and on 32 bits the same NumPy, as in Raspberry Pi OS.

What only runs programs has its packages unpacked, which takes seconds. Where packages are installed, Debian's own are
installed too: their scripts take minutes under emulation.
"""

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.arm.machine import ArmError, MirrorError, enter, run

SUITES = {"bookworm": "3.11", "trixie": "3.13", "forky": "3.14"}
"""Debian 12, 13 and what becomes 14, and the Python of each."""
# A mirror that keeps copies may serve parts of different days under one name of a suite, and whole ones under another.
_OTHER_NAMES = {"bookworm": "oldstable", "trixie": "stable", "forky": "testing"}
_BUILD = Path(__file__).resolve().parent.parent.parent / "build"
# What a Pi takes from its distribution: Python, and what has no wheel for it (docs/pi.md).
_PACKAGES = (
    "libstdc++6",  # of TensorFlow Lite; every system with apt has it
    "python3",
    "python3-venv",
    "systemd",  # makes the user of the Debian package
)
# What Debian has anyway, of which programs that are started make use.
_ESSENTIAL = ("base-files", "base-passwd", "coreutils", "dash", "debianutils", "grep", "libc-bin", "sed", "tar")
_PACKAGES_ARMHF = (
    "libopenblas0-pthread",  # without it NumPy multiplies matrices with the reference BLAS, ten times slower
    "python3-cffi",
    "python3-numpy",
    "python3-ply",  # pycparser asks for it by a virtual name, which debootstrap cannot follow
    "python3-soundfile",
)


@dataclass(frozen=True)
class System:
    """A suite of Debian for an architecture.

    Attributes:
        suite: Debian's name of it.
        architecture: Debian's name of it.
        folder: Where a root is built in which its programs run.
        more: Packages besides those that a device takes from its distribution.
    """

    suite: str
    architecture: str
    folder: Path
    more: tuple[str, ...] = ()

    @property
    def installed(self) -> Path:
        """Where a root is built in which packages can be installed."""
        return self.folder.with_name(f"{self.folder.name}-installed")

    def __str__(self) -> str:
        return f"Debian {self.suite} for {self.architecture}"


SYSTEMS = (
    System("bookworm", "armhf", _BUILD / "armv7-root"),
    System("trixie", "armhf", _BUILD / "armv7-root-trixie"),
    System("bookworm", "arm64", _BUILD / "arm64-root"),
    System("trixie", "arm64", _BUILD / "arm64-root-trixie"),
)
# What lies in a root before the packages. Nothing is read at leisure there, and a root that is half written is built
# anew. Certificates and byte code take minutes to be made under emulation, and nobody asks for them.
_FILES = {
    "etc/dpkg/dpkg.cfg.d/quick": """\
force-unsafe-io
path-exclude=/usr/share/doc/*
path-exclude=/usr/share/man/*
path-exclude=/usr/share/locale/*
path-exclude=/usr/bin/py3compile
path-exclude=/usr/sbin/update-ca-certificates
""",
    "usr/sbin/update-ca-certificates": "#!/bin/sh\n",
}
_STAMP = ".recipe"


def mirror() -> str:
    """Return the address of a Debian mirror: DEBIAN_MIRROR, or the one that this machine's apt uses for Debian."""
    if chosen := os.environ.get("DEBIAN_MIRROR"):
        return chosen
    fields = "$(REPO_URI) $(RELEASE) $(COMPONENT)"
    for line in run("apt-get", "indextargets", "--format", fields, "Created-By: Packages").splitlines():
        address, release, component = line.split()
        if release in SUITES and component == "main":
            return address
    raise ArmError(
        f"this machine's apt has no Debian {' or '.join(SUITES)}; name a mirror of it: make armv7-root "
        "DEBIAN_MIRROR=..."
    )


def build(root: Path, system: System) -> None:
    """Build a root of a system, unless it is there; it appears under its name when it is complete.

    Raises:
        MirrorError: the mirror does not serve it as it was signed.
        ArmError: anything else failed.
    """
    stamp = root / _STAMP
    if stamp.exists() and stamp.read_text() == _recipe(system):
        return
    root.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(dir=root.parent, prefix=f".{root.name}-"))
    make = _install if root == system.installed else _unpack
    try:
        try:
            make(making, system.suite, system)
        except MirrorError as error:
            shutil.rmtree(making)
            try:
                make(making, _OTHER_NAMES[system.suite], system)
            except MirrorError:
                raise error from None
        making.chmod(0o755)
        (making / _STAMP).write_text(_recipe(system))
        shutil.rmtree(root, ignore_errors=True)
        making.rename(root)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _packages(system: System) -> tuple[str, ...]:
    return _PACKAGES + (_PACKAGES_ARMHF if system.architecture == "armhf" else ()) + system.more


def _recipe(system: System) -> str:
    return "\n".join([system.suite, system.architecture, *_packages(system), *_ESSENTIAL, *_FILES.values()])


def _unpack(root: Path, name: str, system: System) -> None:
    """Unpack the suite of a name, if it is the system's, and do for programs what their scripts would do."""
    packages = ",".join(_packages(system) + _ESSENTIAL)
    options = ["--variant=extract", f"--architectures={system.architecture}", f"--include={packages}"]
    # Debian's testing is signed for a week, and a mirror's copy may be older.
    options += ['--aptopt=Acquire::Check-Valid-Until "false"']
    _from_mirror(root, system, "mmdebstrap", "--quiet", *options, name, root, mirror())
    # Users, certificates, which BLAS is taken, and where libraries are.
    for file in ("passwd", "group"):
        shutil.copy(root / f"usr/share/base-passwd/{file}.master", root / "etc" / file)
    for name in ("mnt", "root", "srv"):
        (root / name).mkdir(exist_ok=True)
    _join_certificates(root)
    for library in root.glob("usr/lib/*/openblas-pthread/lib*.so.?"):
        (library.parent.parent / library.name).symlink_to(f"{library.parent.name}/{library.name}")
    run(*enter(root, "ldconfig"))


def _install(root: Path, name: str, system: System) -> None:
    """Install the suite of a name, if it is the system's."""
    for path, text in _FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
        (root / path).chmod(0o755)
    options = [f"--arch={system.architecture}", "--variant=minbase", f"--include={','.join(_packages(system))}"]
    # Its mounts end with it.
    _from_mirror(root, system, "unshare", "--mount", "debootstrap", *options, name, root, mirror())
    _join_certificates(root)
    run(*enter(root, "apt-get", "clean"))


def _join_certificates(root: Path) -> None:
    """Write what update-ca-certificates would: pip of Debian 13 does not start without it."""
    certificates = sorted(root.glob("usr/share/ca-certificates/*/*.crt"))
    (root / "etc/ssl/certs").mkdir(parents=True, exist_ok=True)
    (root / "etc/ssl/certs/ca-certificates.crt").write_bytes(b"".join(path.read_bytes() for path in certificates))


def _from_mirror(root: Path, system: System, *command: str | Path) -> None:
    """Run what fills a root from the mirror; refuse another suite: `stable` is another one every two years."""
    proxy = run("apt-config", "shell", "proxy", "Acquire::http::Proxy").strip().removeprefix("proxy=").strip("'")
    try:
        run(*command, env={**os.environ, **({"http_proxy": proxy} if proxy else {})})
    except ArmError as error:
        raise MirrorError(
            f"{mirror()} does not serve {system} as it was signed; try again later, or name another mirror in "
            f"DEBIAN_MIRROR:\n{error}"
        ) from error
    if f"VERSION_CODENAME={system.suite}\n" not in (root / "usr/lib/os-release").read_text():
        raise MirrorError(f"{mirror()} serves another suite than {system.suite} under another name")
