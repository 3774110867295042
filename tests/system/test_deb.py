"""The Debian package of the device: what it holds, what it asks for, and its maintainer scripts."""

import re
import shutil
import subprocess
import sys

import pytest
import yaml
from packaging.utils import parse_wheel_filename

from deb.__main__ import PACKAGE, SCRIPTS, TARGETS, control, version
from deb.wheels import ARM64, ARMHF, WheelError, needed
from edge_client.cli import parser
from tests.support.checkout import ROOT, kept, sources_digest
from tests.support.packages import built_packages, tracked_files

DEVICE = "auricle[edge,mqtt,wyoming]"


@pytest.fixture(scope="module")
def package():
    """The package for 32-bit ARM, as `make deb` builds it but for Auricle's wheel, which other tests built before."""
    _, wheel = built_packages()

    def build(folder):
        command = [sys.executable, "-m", "deb", "armhf", "--output", folder, "--wheel", wheel]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)

    (path,) = kept("deb", sources_digest(*tracked_files()), build).glob("*.deb")
    return path


def dpkg_deb(*words) -> str:
    return subprocess.run(["dpkg-deb", *words], check=True, text=True, stdout=subprocess.PIPE).stdout


@pytest.mark.slow
def test_the_package_says_what_it_is_and_needs(package):
    fields = dict(line.split(": ", 1) for line in dpkg_deb("--field", package).splitlines() if ": " in line)
    assert (fields["Package"], fields["Architecture"]) == ("auricle-edge", "armhf")
    wanted = {"python3 (>= 3.11)", "python3 (<< 3.12) | python3 (>= 3.13)", "python3 (<< 3.14)"}
    wanted |= {"python3-numpy", "python3-cffi", "python3-soundfile", "python3-venv", "systemd"}
    assert wanted <= set(fields["Depends"].split(", "))
    assert int(fields["Installed-Size"]) > 1000


@pytest.mark.slow
def test_the_package_holds_the_installer_and_every_wheel_of_a_32_bit_pi_and_belongs_to_root(package):
    lines = [line.split() for line in dpkg_deb("--contents", package).splitlines()]
    assert {owner for _, owner, *_ in lines} == {"root/root"}
    modes = {name.removeprefix("./usr/share/"): mode for mode, *_, name in lines}
    assert modes["auricle/systemd/setup.sh"] == "-rwxr-xr-x"
    shared = {"auricle/systemd/auricle-edge.service", "auricle/systemd/edge.toml", "auricle/constraints.txt"}
    shared |= {"auricle/systemd/auricle-edge-wyoming.service", "doc/auricle-edge/home-assistant.md"}
    assert shared | {"doc/auricle-edge/copyright", "doc/auricle-edge/device.md"} <= modes.keys()
    wheels = [parse_wheel_filename(name.rpartition("/")[2]) for name in modes if name.endswith(".whl")]
    wanted = {"auricle==0.1.0"}.union(*(needed(target, DEVICE) for target in ARMHF))
    assert {f"{name}=={version}" for name, version, *_ in wheels} == wanted
    platforms = {tag.platform for *_, tags in wheels for tag in tags}
    assert platforms <= {"any", *ARMHF[0].platforms, "manylinux_2_17_armv7l"}


def test_the_playbook_installs_what_is_built_and_asks_the_program_how_it_is():
    (play,) = yaml.safe_load((ROOT / "examples" / "update_devices.yml").read_text())
    tasks = {next(name for name in task if name.startswith("ansible.builtin.")): task for task in play["tasks"]}
    source = tasks["ansible.builtin.copy"]["ansible.builtin.copy"]["src"]
    built = {f"{PACKAGE}_{version()}_{architecture}.deb" for architecture in TARGETS}
    template = source.replace("{{ packages }}/", "").replace("{{ version }}", version())
    filled = {template.replace("{{ architecture.stdout }}", architecture) for architecture in TARGETS}
    assert filled == built
    assert (
        tasks["ansible.builtin.apt"]["ansible.builtin.apt"]["deb"]
        == (tasks["ansible.builtin.copy"]["ansible.builtin.copy"]["dest"])
    )
    *_, program, action = play["tasks"][-1]["ansible.builtin.command"]["argv"]
    assert program == PACKAGE
    parser().parse_args([action])


def test_each_architecture_asks_for_a_python_that_its_wheels_are_for():
    for target in ARMHF:
        found = needed(target, DEVICE)
        assert "pymicro-wakeword==2.5.0" in found
        assert not any(name.startswith(("numpy", "soundfile", "cffi", "pymicro-features")) for name in found)
    for target, numpy in zip(ARM64, ("numpy==1.", "numpy==2."), strict=True):
        found = needed(target, DEVICE)
        assert [name for name in found if name.startswith(numpy)]
        assert {"pymicro-wakeword==2.5.0", "pymicro-features==2.0.2"} <= set(found)
        assert not any(name.startswith(("ai-edge-litert", "tflite-runtime")) for name in found)
    assert "python3-numpy" not in re.search(r"^Depends: (.*)$", control("arm64", 1), re.MULTILINE)[1]
    with pytest.raises(WheelError, match="setuptools"):
        needed(ARMHF[0], "setuptools")


def test_the_maintainer_scripts_are_clean_and_call_what_the_package_holds():
    for name in SCRIPTS:
        path = ROOT / "deb" / name
        if shutil.which("shellcheck"):  # the check installs it
            subprocess.run(["shellcheck", path], check=True)
        wrong = subprocess.run(["sh", path, "nonsense"], text=True, capture_output=True, check=False)
        assert (wrong.returncode, f"{name}: unknown argument 'nonsense'" in wrong.stderr) == (1, True)
    assert "/usr/share/auricle/systemd/setup.sh install edge" in (ROOT / "deb/postinst").read_text()
    assert "/usr/share/auricle/systemd/setup.sh uninstall edge" in (ROOT / "deb/prerm").read_text()


def test_purging_forgets_what_the_installer_keeps():
    """postrm runs when the installer is gone, so the two lists are compared here."""
    installer, purge = (ROOT / "systemd/setup.sh").read_text(), (ROOT / "deb/postrm").read_text()
    user, templates, own = re.search(r"edge\) user=(\S+) .* templates=\((.*?)\) own=\((.*?)\)", installer).groups()
    kept_files = [*templates.split(), *(f"{name}.default" for name in templates.split()), *own.split()]
    assert all(f"/etc/auricle/{name}" in purge for name in kept_files)
    assert f"/var/lib/{user}" in purge
    assert f"userdel {user}" in purge
