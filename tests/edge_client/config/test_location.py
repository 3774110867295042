"""A command finds its configuration, and says where it looked when there is none: real programs in real folders."""

import json
import os
import subprocess
import sys

import pytest

from edge_client.config import location
from tests.support.checkout import ROOT, run_module


@pytest.fixture
def type_(tmp_path):
    """Types a command in a folder, by default the test's."""

    def typed(*arguments, status=0, folder=tmp_path, **environment):
        known = {name: value for name, value in os.environ.items() if name not in ("AURICLE_CONFIG", "SUDO_UID")}
        environment = {**known, "PYTHONPATH": str(ROOT), **environment}
        done = run_module("edge_client.cli", *arguments, cwd=folder, env=environment, stdin=subprocess.DEVNULL)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout if status == 0 else done.stderr

    return typed


def name_of(said):
    """The device of which `doctor` speaks, by its state folder."""
    return next(item["found"] for item in json.loads(said) if item["check"] == "configuration")


def test_the_folders_file_is_used_where_nothing_is_named(type_, tmp_path):
    said = type_("init", "--alone", "--microphone", "none")
    assert "wrote edge.toml" in said
    assert "next: auricle-edge doctor, then auricle-edge run\n" in said
    assert name_of(type_("doctor", "--json")) == "edge.toml"
    assert type_("clips") is not None
    assert (tmp_path / "state").is_dir()


def test_what_is_named_goes_before_the_folder_and_the_option_before_the_variable(type_, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    for name in ("a", "b"):
        type_("init", "--alone", "--microphone", "none", "--config", elsewhere / f"{name}.toml")
    type_("init", "--alone", "--microphone", "none")
    variable = {"AURICLE_CONFIG": str(elsewhere / "a.toml")}
    assert name_of(type_("doctor", "--json", **variable)) == variable["AURICLE_CONFIG"]
    option = ("--config", elsewhere / "b.toml")
    assert name_of(type_("doctor", "--json", *option, **variable)) == str(option[1])
    assert name_of(type_("doctor", "--json", AURICLE_CONFIG="")) == "edge.toml"


def test_init_says_the_option_that_the_next_commands_need(type_, tmp_path):
    said = type_("init", "--alone", "--microphone", "none", "--config", "other.toml")
    assert "next: auricle-edge doctor --config other.toml, then auricle-edge run --config other.toml" in said
    said = type_("init", "--alone", "--microphone", "none", AURICLE_CONFIG=str(tmp_path / "named.toml"))
    assert "next: auricle-edge doctor, then auricle-edge run\n" in said
    assert (tmp_path / "named.toml").exists()


@pytest.mark.parametrize("command", [["run"], ["events"], ["clips", "undo"], ["record", "--label", "x"], ["leave"]])
def test_without_any_the_places_and_the_way_out_are_named(command, type_, tmp_path):
    if location.SERVICE_CONFIG.exists():
        pytest.skip("this machine is a device")
    said = type_(*command, status=1)
    for part in (
        f"edge.toml in this folder, {tmp_path}",
        "/etc/auricle/edge.toml",
        "AURICLE_CONFIG is not set",
        "auricle-edge init",
        "--config FILE",
    ):
        assert part in said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "environment", "by"),
    [(["--config", "gone.toml"], {}, "--config"), ([], {"AURICLE_CONFIG": "gone.toml"}, "AURICLE_CONFIG")],
)
def test_a_named_file_that_is_not_there_is_no_reason_to_take_another(arguments, environment, by, type_):
    type_("init", "--alone", "--microphone", "none")
    said = type_("events", *arguments, status=1, **environment)
    assert f"no configuration gone.toml, which {by} names" in said
    assert "auricle-edge init --config gone.toml" in said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_that_a_stranger_left_in_the_folder_is_refused(type_, tmp_path):
    type_("init", "--alone", "--microphone", "none")
    os.chown(tmp_path / "edge.toml", 4321, -1)
    said = type_("events", status=1)
    assert "belongs to another user" in said
    assert "--config edge.toml" in said
    type_("events", "--config", "edge.toml")
    type_("events", SUDO_UID="4321")  # who typed `sudo` in a folder of their own


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_folder_that_the_user_may_not_enter_has_none(tmp_path):
    """As `sudo -u auricle auricle-edge status`, typed in the home of somebody else."""
    (tmp_path / "edge.toml").write_text("")
    tmp_path.chmod(0o700)
    program = "from edge_client.config.location import find_config; find_config(None)"
    child = f"import os; os.setuid(4321)\n{program}"
    done = subprocess.run(
        [sys.executable, "-c", f"import edge_client.config.location\n{child}"],
        cwd=tmp_path,
        capture_output=True,
        env={"PYTHONPATH": str(ROOT)},
        text=True,
        check=False,
        timeout=180,
    )
    if not location.SERVICE_CONFIG.exists():
        assert "neither edge.toml in this folder" in done.stderr
    assert "PermissionError" not in done.stderr
