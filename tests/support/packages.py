"""Packages of the checkout: wheels of all that a service needs, the sdist, and the wheel built from that.

And the Pythons of this machine, from Debian or pyenv, that Auricle runs on.
"""

import functools
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from release.distributions import SETUPTOOLS, build, install_tools
from tests.support.checkout import ROOT, kept, sources_digest

_MINORS = (11, 12, 13, 14)
PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")


def tracked_files() -> list[str]:
    """Return the files that Git knows or would take, by their paths."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE).stdout.splitlines()
    return sorted(name for name in names if (ROOT / name).is_file())


def copy_sources(target: Path) -> None:
    """Copy what Git knows, as an owner would who clones it, with what is not committed yet."""
    for name in tracked_files():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target / name)


def service_wheels() -> Path:
    """Return a folder of wheels: both services as an owner without a network would bring them; kept under build/."""
    return wheels_for(Path(sys.executable), "edge,mqtt,private,server,ui,wyoming")


def wheels_for(python: Path, extras: str) -> Path:
    """Return a folder of the wheels that a Python needs for extras, and to build Auricle's; kept under build/."""

    def download(folder: Path) -> None:
        pip = [python, "-m", *PIP[2:]]
        command = [*pip, "download", "--dest", folder, "--constraint", "constraints.txt"]
        subprocess.run([*command, SETUPTOOLS, f".[{extras}]"], cwd=ROOT, check=True)

    made_by = ("pyproject.toml", "constraints.txt", "release/distributions.py")
    return kept(f"wheels-{version(python)}", sources_digest(*made_by), download)


@functools.cache
def built_packages() -> tuple[Path, Path]:
    """Return the sdist of the sources, and the wheel that is built from it without a network; kept under build/."""
    names = tracked_files()
    folder = kept("packages", sources_digest(*names), _build)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


def install_wheel(folder: Path) -> Path:
    """Make an environment that holds the wheel, and beside it what this one holds besides Auricle."""
    _, wheel = built_packages()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    pip_install(folder, "--no-deps", wheel)
    # The folder's own .pth files, this checkout's editable installation among them, are not read from there.
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "beside.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def pip_install(environment: Path, *words: str | Path) -> None:
    """Install into an environment without a network; what a build needs comes from the services' wheels."""
    command = [*PIP, "--python", environment / "bin" / "python", "install", "--no-index"]
    own = {**os.environ, "PYTHONPATH": ""}
    done = subprocess.run(
        [*command, "--find-links", service_wheels(), *words], env=own, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def run_installed(environment: Path, program: str, *words: str | Path, status: int = 0) -> str:
    """Run an environment's program, with nothing of this checkout in reach, and return what it printed."""
    own = {"PATH": os.environ["PATH"], "HOME": str(environment)}  # no PYTHONPATH
    command = [environment / "bin" / program, *words]
    done = subprocess.run(command, cwd=environment, env=own, text=True, capture_output=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def _build(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        sources = Path(scratch) / "sources"
        copy_sources(sources)
        tools = install_tools(Path(scratch) / "tools", "--no-index", "--find-links", service_wheels())
        build(sources, folder, tools, epoch=1_000_000_000)


def other_pythons() -> list[Path]:
    """Return one Python of each other version that this machine has, the oldest first."""
    return [found for minor in _MINORS if minor != sys.version_info.minor and (found := _python(f"3.{minor}"))]


def version(python: Path) -> str:
    """Return the version of a Python, such as `3.13`."""
    code = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", code], text=True, capture_output=True, check=False)
    return done.stdout.strip()


def _python(wanted: str) -> Path | None:
    """Return a Python of a version that can make environments; pyenv puts names on the path that run nothing."""
    on_path = shutil.which(f"python{wanted}")
    own = sorted(Path.home().glob(f".pyenv/versions/{wanted}.*/bin/python"))
    candidates = [*([Path(on_path)] if on_path else []), *own]
    return next((python for python in candidates if version(python) == wanted), None)
