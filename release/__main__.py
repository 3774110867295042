"""`make release`: all that a release consists of, built from a clean checkout, the same bytes wherever it is built.

The time of the commit stands for the time of the build (SOURCE_DATE_EPOCH). A key adds signatures and nothing else, so
whoever has no key can build the release again and compare SHA256SUMS.
"""

import argparse
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from deb.__main__ import TARGETS
from release import distributions, repository, signatures
from release.bill_of_materials import write_bill
from release.errors import ReleaseError

ROOT = Path(__file__).resolve().parent.parent
SUMS = "SHA256SUMS"
_LISTED = 20  # of the files that keep a checkout from being released


def main() -> int:
    """Build the release; print its folder."""
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__)
    parser.add_argument("architectures", nargs="*", metavar="ARCHITECTURE", help=f"{', '.join(TARGETS)} (all)")
    parser.add_argument("--output", type=Path, default=ROOT / "dist/release", metavar="FOLDER", help="(dist/release)")
    parser.add_argument("--key", metavar="FINGERPRINT", help="of the OpenPGP key that signs; without it nothing is")
    options = parser.parse_args()
    architectures = sorted(set(options.architectures or TARGETS))
    if unknown := set(architectures) - set(TARGETS):
        parser.error(f"no package is made for {min(unknown)}; for: {', '.join(TARGETS)}")
    os.umask(0o022)
    try:
        key = signatures.secret_key(options.key) if options.key else None
        print(release(options.output.absolute(), architectures, key))
    except (ReleaseError, OSError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    if key is None:
        notice = "nothing is signed, so apt refuses the repository; to publish: make release KEY=FINGERPRINT"
        print(f"NOTICE: {notice}", file=sys.stderr)
    return 0


def release(output: Path, architectures: list[str], key: str | None) -> Path:
    """Build a release beside its place, and move it there when it is whole.

    Args:
        output: its folder, which is not there yet.
        architectures: Debian's names of those that packages are built for.
        key: fingerprint of the key that signs.

    Raises ReleaseError: the checkout is not clean, or a part cannot be built.
    """
    if output.exists():
        raise ReleaseError(f"{output} is there already; remove it, or name another folder: make release RELEASE=FOLDER")
    commit, epoch = clean_commit(ROOT)
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=".release-") as scratch:
        sources, made = Path(scratch) / "sources", Path(scratch) / "made"
        made.mkdir()
        export(ROOT, commit, sources)
        tools = distributions.install_tools(Path(scratch) / "tools")
        wheel = distributions.build(sources, made, tools, epoch)
        packages = build_packages(sources, wheel, made, architectures, epoch)
        for package in packages:
            write_bill(package, epoch)
        repository.write(made / "apt", packages, architectures, epoch)
        write_sums(made)
        if key:
            repository.sign(made / "apt", key)
            signatures.sign(made / SUMS, made / f"{SUMS}.asc", key)
            signatures.export_key(key, made / "auricle.asc")
        made.rename(output)
    return output


def clean_commit(root: Path) -> tuple[str, int]:
    """Return a checkout's commit and its time in seconds since 1970.

    Raises ReleaseError: the folder is no checkout, or holds what is not in its commit.
    """
    top = _git(root, "rev-parse", "--show-toplevel").decode().strip()
    if Path(top) != root:
        raise ReleaseError(f"{root} is no checkout of its own but lies in that of {top}; clone Auricle by Git")
    if dirty := _git(root, "status", "--porcelain", "--untracked-files=all").decode().splitlines():
        shown = "\n".join(dirty[:_LISTED] + ([f"and {len(dirty) - _LISTED} more"] if len(dirty) > _LISTED else []))
        raise ReleaseError(f"{root} differs from its commit; commit, ignore or remove these files:\n{shown}")
    commit, epoch = _git(root, "log", "-1", "--format=%H %ct").decode().split()
    return commit, int(epoch)


def export(root: Path, commit: str, folder: Path) -> None:
    """Write the files of a commit into a folder, and nothing that Git ignores."""
    packed = _git(root, "-c", "core.autocrlf=false", "archive", "--format=tar", commit)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")


def build_packages(sources: Path, wheel: Path, output: Path, architectures: list[str], epoch: int) -> list[Path]:
    """Build the Debian packages of the exported sources; return their files. Raises ReleaseError: this failed."""
    command: list[str | Path] = [sys.executable, "-m", "deb", *architectures, "--output", output, "--wheel", wheel]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    done = subprocess.run(command, cwd=sources, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"the Debian packages cannot be built:\n{done.stderr}")
    return sorted(output.glob("*.deb"))


def write_sums(folder: Path) -> None:
    """Write the digests of all files in a folder as `sha256sum --check` reads them."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}\n" for path in files]
    (folder / SUMS).write_text("".join(lines))


def _git(root: Path, *words: str) -> bytes:
    if shutil.which("git") is None:
        raise ReleaseError("git is not installed; a release is built from a clone: apt-get install git")
    done = subprocess.run(["git", "-C", root, *words], capture_output=True, check=False)
    if done.returncode:
        raise ReleaseError(f"{root}: git {words[0]} failed: {done.stderr.decode().strip()}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
