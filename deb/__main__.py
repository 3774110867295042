"""`make deb`: the device as a Debian package, which needs no network when it is installed.

It holds Auricle's wheel, those of all that it needs, and the installer (systemd/setup.sh), which its maintainer scripts
call: there is one way to install a device. NumPy, cffi and soundfile of armhf are the distribution's.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from deb.wheels import ARM64, ARMHF, CONSTRAINTS, WheelError, download, needed

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "auricle-edge"
SCRIPTS = ("postinst", "prerm", "postrm")
EXTRAS = "auricle[edge,mqtt,private,wyoming]"
# Wheels for the Pythons of Debian 12 and 13.
TARGETS = {"armhf": ARMHF, "arm64": ARM64}
_PYTHON = "python3 (>= 3.11), python3 (<< 3.12) | python3 (>= 3.13), python3 (<< 3.14)"
_PYTHONS = {"armhf": f"{_PYTHON}, python3-numpy, python3-cffi, python3-soundfile", "arm64": _PYTHON}
_RECOMMENDS = {"armhf": "alsa-utils, libopenblas0-pthread", "arm64": "alsa-utils"}
# What of the checkout Auricle's wheel is built from.
_SOURCES = (
    *("CHANGELOG.md", "LICENSE", "README.md", "constraints.txt", "pyproject.toml", "docs", "examples", "systemd"),
    *("aggregator_server", "edge_client", "fleet_protocol", "fleet_simulator", "model_export"),
)


def main() -> int:
    """Build the packages that were asked for; print their paths."""
    parser = argparse.ArgumentParser(prog="python -m deb", description=__doc__)
    parser.add_argument("architectures", nargs="*", metavar="ARCHITECTURE", help=f"{', '.join(TARGETS)} (all)")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", metavar="FOLDER", help="(dist)")
    parser.add_argument("--wheel", type=Path, metavar="FILE", help="Auricle's own, built before; else it is built")
    options = parser.parse_args()
    if unknown := sorted(set(options.architectures) - set(TARGETS)):
        parser.error(f"no package is made for {unknown[0]}; for: {', '.join(TARGETS)}")
    os.umask(0o022)
    options.output.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            wheel = options.wheel or build_wheel(Path(scratch))
            for architecture in options.architectures or TARGETS:
                print(build(architecture, wheel, options.output), flush=True)
    except (WheelError, subprocess.CalledProcessError, OSError) as error:
        print(f"deb: {error}", file=sys.stderr)
        return 1
    return 0


def build_wheel(scratch: Path) -> Path:
    """Build Auricle's wheel from a copy of the sources, so that these keep no traces."""
    copy = scratch / "sources"
    copy.mkdir()
    for name in _SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / name)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--wheel-dir", scratch, copy], check=True)
    return next(scratch.glob("*.whl"))


def build(architecture: str, wheel: Path, output: Path) -> Path:
    """Build a package of Debian's architecture and Auricle's wheel; return its file.

    Raises WheelError: a wheel cannot be had; CalledProcessError: dpkg-deb failed, and said why.
    """
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "tree"
        share = tree / "usr/share/auricle"
        (share / "wheels").mkdir(parents=True)
        for target in TARGETS[architecture]:
            download(target, needed(target, EXTRAS), share / "wheels")
        shutil.copy(wheel, share / "wheels")
        shutil.copy(CONSTRAINTS, share)
        (share / "systemd").mkdir()
        for name in ("auricle-edge.service", "auricle-edge-wyoming.service", "edge.env", "edge.toml", "setup.sh"):
            shutil.copy(ROOT / "systemd" / name, share / "systemd")
        write_documents(tree / "usr/share/doc" / PACKAGE)
        write_control(tree, architecture)
        settle_modes(tree)
        path = output / f"{PACKAGE}_{version()}_{architecture}.deb"
        command: list[str | Path] = ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", tree, path]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return path


def settle_modes(tree: Path) -> None:
    """Give every file of a tree the mode that it has for everybody, whatever the umask of the checkout was."""
    for path in (tree, *tree.rglob("*")):
        path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)


def write_documents(folder: Path) -> None:
    """Write the licence and the pages that the configuration and the installer name."""
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "LICENSE", folder / "copyright")
    for name in ("device", "home-assistant", "listening", "pi", "privacy", "teaching", "troubleshooting"):
        shutil.copy(ROOT / "docs" / f"{name}.md", folder)


def write_control(tree: Path, architecture: str) -> None:
    """Write what dpkg must know, and the maintainer scripts."""
    size = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file()) // 1024
    folder = tree / "DEBIAN"
    folder.mkdir()
    (folder / "control").write_text(control(architecture, size))
    for name in SCRIPTS:
        shutil.copy(Path(__file__).parent / name, folder)


def control(architecture: str, size_kb: int) -> str:
    """Return the control file of an architecture."""
    return f"""\
Package: {PACKAGE}
Version: {version()}
Architecture: {architecture}
Maintainer: The Auricle authors <auricle@example.invalid>
Installed-Size: {size_kb}
Depends: {_PYTHONS[architecture]}, libstdc++6, python3-venv, systemd
Recommends: {_RECOMMENDS[architecture]}
Section: sound
Priority: optional
Description: recognises sounds, is taught new ones, and learns with its fleet
 Listens through a microphone and reports the sounds that it knows. Its owner
 teaches it a new one by a few examples. It may take part in a fleet, in which
 devices learn from each other; audio never leaves the device.
 .
 The service is installed but not started: settle /etc/auricle/edge.toml first,
 then run "systemctl enable --now auricle-edge".
"""


def version() -> str:
    """Return Auricle's version."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


if __name__ == "__main__":
    sys.exit(main())
