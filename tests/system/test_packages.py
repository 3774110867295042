"""Wheel and sdist, built from what Git knows: complete, and a wheel alone makes a device that works."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from fleet_protocol.bundle.ready_bundles import FIRST_CHOICE
from tests.support import packages
from tests.support.checkout import ROOT

pytestmark = pytest.mark.slow

PRODUCT = ("aggregator_server", "edge_client", "fleet_protocol", "fleet_simulator", "model_export")
# What the build adds to an sdist.
ADDED = ("PKG-INFO", "setup.cfg", "auricle.egg-info/")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    return packages.install_wheel(tmp_path_factory.mktemp("environment"))


def test_the_sdist_is_all_that_git_knows():
    sdist, _ = packages.built_packages()
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    assert {name for name in names if not name.startswith(ADDED)} == set(packages.tracked_files())


def test_the_wheel_holds_the_packages_whole_and_what_a_user_reads():
    _, wheel = packages.built_packages()
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    shared = {name.partition(".data/data/share/")[2] for name in names if ".data/" in name}
    code = {name for name in names if ".data/" not in name}
    sources = {name for name in packages.tracked_files() if name.startswith(tuple(f"{part}/" for part in PRODUCT))}
    assert code == sources
    assert {f"auricle/systemd/{path.name}" for path in (ROOT / "systemd").iterdir()} <= shared
    examples = {name for name in packages.tracked_files() if name.startswith("examples/")}
    assert {f"auricle/{name}" for name in examples} <= shared
    assert "auricle/constraints.txt" in shared


@pytest.mark.parametrize("installer", ["pipx", "uv"])
def test_the_wheel_is_installed_as_a_tool(tmp_path, installer):
    _, wheel = packages.built_packages()
    tool, found = f"auricle[edge] @ {wheel.as_uri()}", ["--no-index", "--find-links", packages.service_wheels()]
    folders = {
        name: str(tmp_path / name) for name in ("PIPX_HOME", "PIPX_MAN_DIR", "UV_TOOL_DIR", "UV_CACHE_DIR", "HOME")
    }
    own = {**os.environ, **folders, "PIPX_BIN_DIR": str(tmp_path / "bin"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    if installer == "uv":
        words = ["tool", "install", "--no-config", "--offline", "--python", sys.executable, *found, tool]
    else:
        # pipx has a pip of its own, which must not be older than this.
        subprocess.run([*packages.PIP, "download", "--no-deps", "--dest", tmp_path / "pip", "pip>=23.1"], check=True)
        found += ["--find-links", tmp_path / "pip"]
        words = ["install", "--python", sys.executable, f"--pip-args={shlex.join(map(str, found))}", tool]
    command = [sys.executable, "-m", installer, *words]
    done = subprocess.run(command, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    told = packages.run_installed(tmp_path, "auricle-edge", "--version")
    version = r"auricle-edge 0\.1\.0, TensorFlow Lite [\d.]+ \(pymicro-wakeword [\d.]+, SHA-256 [0-9a-f]{12}\)\n"
    assert re.fullmatch(version, told), told


# Where an installed wheel has its modules, and the bundle of its example of a configuration.
WHERE = """
import pathlib, sys
import fleet_protocol.bundle.ready_bundles as bundles
from edge_client.config import load_config
print(bundles.__file__, load_config(pathlib.Path(sys.argv[1])).model.bundle)
"""


def test_an_installed_wheel_brings_bundles_and_units(installed):
    folder = installed / "share" / "auricle" / "systemd"
    assert os.access(folder / "setup.sh", os.X_OK)
    assert (folder / "auricle-edge.service").read_bytes() == (ROOT / "systemd/auricle-edge.service").read_bytes()
    paths = packages.run_installed(installed, "python", "-c", WHERE, folder / "edge.toml").split()
    assert all(path.startswith(str(installed)) and Path(path).is_file() for path in paths)
    assert Path(paths[1]).name == f"{FIRST_CHOICE}.auricle"
    assert "linear" in packages.run_installed(installed, "auricle-export", "inspect", FIRST_CHOICE)
    assert "--config" in packages.run_installed(installed, "auricle-edge", "status", "--help")
    assert "auricle-aggregator" in packages.run_installed(installed, "auricle-aggregator", "--help")


def test_pip_installs_the_example_of_a_strategy_beside_it_and_a_simulation_uses_that(installed, tmp_path):
    packages.pip_install(installed, shutil.copytree(ROOT / "examples" / "own_strategy", tmp_path / "own_strategy"))
    code = "import gentle_device as d; from aggregator_server.strategies.plans import strategies as s"
    where, *names = packages.run_installed(installed, "python", "-c", f"{code}; print(d.__file__, *s())").split()
    assert where.startswith(str(installed))
    assert "gentle" in names
    packages.run_installed(installed, "auricle-sim", "new", "fleet.toml")
    changes = ("rounds=1", "rounds.strategy=gentle", "rounds.local={epochs = 1, label_smoothing = 0.2}")
    options = [word for change in changes for word in ("--set", change)]
    assert "1 rounds" in packages.run_installed(
        installed, "auricle-sim", "run", "fleet.toml", "--workers", "0", *options
    )
