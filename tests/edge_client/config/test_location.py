"""Where a command's configuration is: named, in this folder, or the service's; what is said where there is none."""

import os

import pytest

from edge_client.cli import main
from edge_client.config import location
from edge_client.config.location import LOCAL_CONFIG, config_option, find_config, new_config
from edge_client.errors import ConfigError


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder in which a command is typed, on a machine that is no device."""
    monkeypatch.setattr(location, "SERVICE_CONFIG", tmp_path / "etc" / "edge.toml")
    for variable in ("AURICLE_CONFIG", "SUDO_UID"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def written(path):
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    return path


def test_the_option_goes_before_the_variable_that_before_the_folder_and_that_before_the_service(folder, monkeypatch):
    service = written(folder.parent / "etc" / "edge.toml")
    assert find_config(None) == service
    assert new_config(None) == LOCAL_CONFIG
    written(folder / "edge.toml")
    assert find_config(None) == LOCAL_CONFIG
    variable, option = written(folder.parent / "a.toml"), written(folder.parent / "b.toml")
    assert config_option(variable) == f" --config {variable}"
    monkeypatch.setenv("AURICLE_CONFIG", str(variable))
    assert (find_config(None), new_config(None), config_option(variable)) == (variable, variable, "")
    assert find_config(option) == new_config(option) == option
    monkeypatch.setenv("AURICLE_CONFIG", "")
    assert (find_config(None), config_option(folder / "edge.toml")) == (LOCAL_CONFIG, "")


@pytest.mark.parametrize("command", [["run"], ["events"], ["clips", "undo"], ["record", "--label", "x"], ["leave"]])
def test_without_any_the_places_and_the_way_out_are_named(command, folder, capsys):
    assert main(command) == 1
    said = capsys.readouterr().err
    for part in (
        f"edge.toml in this folder, {folder}",
        "AURICLE_CONFIG is not set",
        "auricle-edge init",
        "--config FILE",
    ):
        assert part in said
    assert not list(folder.iterdir())


@pytest.mark.parametrize("by", ["--config", "AURICLE_CONFIG"])
def test_a_named_file_that_is_not_there_is_no_reason_to_take_another(by, folder, monkeypatch):
    written(folder / "edge.toml")
    gone = folder / "gone.toml"
    if by == "AURICLE_CONFIG":
        monkeypatch.setenv(by, str(gone))
    with pytest.raises(ConfigError, match=f"no configuration {gone}, which {by} names; .*init --config {gone}"):
        find_config(gone if by == "--config" else None)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_that_a_stranger_left_in_the_folder_is_refused(folder, monkeypatch):
    os.chown(written(folder / "edge.toml"), 4321, -1)
    with pytest.raises(ConfigError, match=r"belongs to another user.*--config edge\.toml"):
        find_config(None)
    assert find_config(LOCAL_CONFIG) == LOCAL_CONFIG
    monkeypatch.setenv("SUDO_UID", "4321")  # who typed `sudo` in a folder of their own
    assert find_config(None) == LOCAL_CONFIG
