"""The Debian package of the device: what it asks for, and its maintainer scripts.

tests/system/test_release.py looks into one that was built.
"""

import re
import shutil
import subprocess

import pytest
import yaml

from deb.__main__ import PACKAGE, SCRIPTS, TARGETS, control, version
from deb.wheels import ARM64, ARMHF, WheelError, needed
from edge_client.cli import parser
from tests.support.checkout import ROOT

DEVICE = "auricle[edge,mqtt,private,wyoming]"


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
