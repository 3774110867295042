"""`init` writes a configuration that the device can use, and `doctor` finds what keeps it from its work."""

import json
import os
import signal

import numpy as np
import pytest
import soundfile

from edge_client.config import load_config
from fleet_protocol.bundle.ready_bundles import find_bundle
from tests.support.aggregator_process import ENROL
from tests.support.edge_commands import EdgeCommands
from tests.support.edge_process import EdgeDaemon, wait_for
from tests.support.sound_server import no_sound_devices
from tests.support.sounds import write_clips


@pytest.fixture
def edge(tmp_path, capsys):
    return EdgeCommands(tmp_path, capsys)


def test_options_alone_write_a_configuration_and_what_is_there_stays(edge):
    out = edge("init", "--microphone", 'a "shelf"', "--bundle", "cnn1", "--alone", "--name", "x")
    assert "next: auricle-edge doctor" in out
    assert "its bundle is cnn1; to choose another now" in out
    config = load_config(edge.config)
    assert (config.device.name, config.device.share_names, config.server) == ("x", False, None)
    assert config.microphone.device == 'a "shelf"'
    assert config.model.bundle.stem == "cnn1"
    assert config.device.state == edge.folder / "state"
    assert edge.config.stat().st_mode & 0o777 == 0o644
    before = edge.config.read_bytes()
    assert "--force replaces it" in edge("init", "--alone", status=1)
    assert edge.config.read_bytes() == before
    found = json.loads(edge("init", "--force", "--microphone", "none", "--share-names", "--json"))
    assert found.pop("knows") == []
    assert found == {"config": str(edge.config), "bundle": "words", "microphone": None, "play": None, "joined": None}
    assert load_config(edge.config).microphone is None
    assert load_config(edge.config).device.share_names


def test_a_bundle_that_does_not_exist_leaves_no_file(edge):
    assert "no ready bundle is called 'bse'" in edge("init", "--bundle", "bse", "--alone", status=1)
    assert list(edge.folder.iterdir()) == []


@pytest.mark.slow
def test_three_answers_at_a_terminal_write_a_configuration(edge, sound_server):
    assert sound_server
    # No such number; the first real microphone; words and sounds; alone.
    status, out, errors = edge.answered(b"99\n2\n3\n\n", "init")
    assert status == 0, errors
    assert "'99' is none of these numbers" in errors
    assert f"wrote {edge.config}" in out
    config = load_config(edge.config)
    assert config.microphone.device in errors
    assert config.microphone.device != ""
    assert (config.model.bundle.stem, config.server) == ("words_and_sounds", None)


def findings(edge, status):
    out, errors = edge.ended(status, "doctor", "--json")
    assert errors == ""
    return {finding["check"]: finding for finding in json.loads(out)}


def test_a_device_that_is_well_is_told_so_and_one_without_a_configuration_what_to_do(edge):
    missing = findings(edge, 1)["configuration"]
    assert missing["verdict"] == "problem"
    assert f"auricle-edge init --config {edge.config}" in missing["found"]
    edge("init", "--microphone", "none", "--alone", "--bundle", "cnn1")
    found = findings(edge, 0)
    assert list(found) == [
        *("versions", "configuration", "permission", "clock", "disk", "bundle", "recordings"),
        *("microphone", "aggregator"),
    ]
    assert {finding["verdict"] for finding in found.values()} <= {"ok", "warning"}
    assert "no labels yet" in found["bundle"]["found"]
    assert "ok    bundle" in edge("doctor")


def test_what_is_wrong_is_found_with_its_way_out(edge, monkeypatch):
    edge("init", "--microphone", "no such thing", "--alone", "--bundle", "cnn1")
    text = edge.config.read_text() + '[recordings]\nfolder = "gone"\n[server]\nurl = "http://127.0.0.1:9"\n'
    edge.config.write_text(text + 'enrol_token = "x"\n')
    (edge.state.folder / "model.safetensors").write_bytes(b"damaged")
    monkeypatch.setenv("PATH", "/nonexistent")  # no arecord
    found = findings(edge, 1)
    wrong = {check for check, finding in found.items() if finding["verdict"] == "problem"}
    assert wrong == {"bundle", "recordings", "microphone", "aggregator"}
    assert "is damaged" in found["bundle"]["found"]
    assert "gone is no folder" in found["recordings"]["found"]
    assert "cannot run arecord: No such file or directory: sudo apt install alsa-utils" in found["microphone"]["found"]
    assert "127.0.0.1:9" in found["aggregator"]["way_out"]
    assert all(found[check]["way_out"] for check in wrong)


@pytest.mark.slow
def test_a_microphone_is_heard_and_one_that_is_muted_is_found(edge, sound_server):
    edge("init", "--microphone", "shelf", "--alone", "--bundle", "cnn1")
    assert "silent" in findings(edge, 1)["microphone"]["found"]  # nothing is played: digital silence
    sound_server.play_on(0.1 * np.random.default_rng(0).standard_normal(48_000 * 10))
    heard = wait_for(lambda: (got := finding_of(edge, "microphone"))["verdict"] == "ok" and got, what="the sound")
    assert "shelf" in heard["found"]
    # Once more: on a busy machine the sound server leaves gaps.
    wait_for(lambda: edge.tried("doctor", "--json")[0] == 0, what="a device that is well")


@pytest.mark.slow
def test_recordings_that_are_silent_for_a_while_are_no_muted_microphone(edge):
    soundfile.write(edge.folder / "silence.wav", np.zeros(16_000), 16_000)
    edge("init", "--play", str(edge.folder / "silence.wav"), "--alone", "--bundle", "cnn1")
    seen = []
    with edge.start("run") as daemon:
        try:
            wait_for(lambda: edge.state.locked("daemon"), what="the daemon")
            wait_for(lambda: seen.append(finding_of(edge, "microphone")) or "has it" in seen[-1]["found"])
        finally:
            daemon.terminate()
    assert {finding["verdict"] for finding in seen} <= {"ok", "warning"}  # not even while it starts
    assert seen[-1]["verdict"] == "ok"


def finding_of(edge, check):
    """What is found of one thing, whether all is well or not."""
    _, got, _ = edge.tried("doctor", "--json")
    return next(finding for finding in json.loads(got) if finding["check"] == check)


@pytest.mark.slow
def test_membership_is_checked_by_a_question_to_the_aggregator(edge, aggregator):
    edge("init", "--microphone", "none", "--alone", "--bundle", "cnn1")
    text = edge.config.read_text()
    edge.config.write_text(text + f'[server]\nurl = "{aggregator.url}"\nenrol_token = "{ENROL}"\nwait_s = 1\n')
    found = findings(edge, 0)["aggregator"]
    assert (found["verdict"], found["way_out"]) == ("warning", "start the daemon, which enrols: auricle-edge run")
    with edge.start("run") as daemon:
        try:
            known = wait_for(lambda: (got := finding_of(edge, "aggregator"))["verdict"] == "ok" and got)
        finally:
            daemon.terminate()
    assert "knows this device (without TLS)" in known["found"]
    edge.config.write_text(text + f'[server]\nurl = "{aggregator.url}"\nenrol_token = "x"\n')
    (edge.folder / "state" / "identity.json").unlink()
    assert findings(edge, 0)["aggregator"]["verdict"] == "warning"  # another device now


@pytest.fixture
def deaf(tmp_path_factory, monkeypatch):
    """No sound device, whatever this machine has."""
    for name, value in no_sound_devices(tmp_path_factory.mktemp("alsa")).items():
        monkeypatch.setenv(name, value)


@pytest.mark.slow
def test_without_a_microphone_every_step_says_so_and_what_to_do(edge, deaf):
    out, errors = edge.ended(0, "init", "--alone", "--bundle", "cnn1")
    assert "wrote" in out
    found = findings(edge, 1)["microphone"]
    daemon = EdgeDaemon(edge.folder / "daemon", find_bundle("cnn1"), "[microphone]\n").start(dict(os.environ))
    try:
        state = wait_for(lambda: (got := listening(daemon)).get("restarts", 0) >= 2 and got, what="two attempts")
    finally:
        daemon.end(signal.SIGTERM)
    for word in ("no microphone is there: plug one in", "init --play FOLDER"):
        assert all(word in said for said in (errors, found["found"], state["error"]))
    assert daemon.log().count("plug one in") == 1, "one failure that lasts is said once"
    assert "listening for" not in daemon.log()


def listening(daemon):
    """What the status says of the loop that listens."""
    return daemon.status().get("loops", {}).get("listening", {})


@pytest.mark.slow
def test_somebody_without_a_microphone_can_play_recordings(edge, deaf, tmp_path):
    assert "nowhere: there is no such file or folder" in edge("init", "--play", "nowhere", "--alone", status=1)
    assert not edge.config.exists()
    write_clips(tmp_path / "rec", "yes", 2, seed=1)
    edge("init", "--play", tmp_path / "rec", "--alone", "--bundle", "base")
    assert load_config(edge.config).microphone.file == tmp_path / "rec"
    assert findings(edge, 0)["microphone"]["found"].startswith("none: it plays recordings")


def test_what_the_device_shall_recognise_is_said_before_the_first_take_with_how_to_change_it(edge):
    out = edge("init", "--alone", "--microphone", "none")
    assert "its bundle is words, for words that you teach it; to choose another now, again with --force and" in out
    assert "--bundle sounds_2s for everyday sounds, --bundle words_and_sounds for both" in out
    out = edge("init", "--alone", "--microphone", "none", "--force", "--bundle", "sounds_2s")
    assert "its bundle is sounds_2s, for everyday sounds that you teach it" in out
    assert load_config(edge.config).model.bundle == find_bundle("sounds_2s")
