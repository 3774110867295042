"""A device that is taught a word and an everyday sound, and whose owner says which of the two a label is."""

import re
import shutil

import httpx
import numpy as np
import pytest

from demo.corpus import synthesise
from edge_client.audio.recordings import encode_wave, read_recording
from edge_client.clips.files import chosen_kinds
from edge_client.daemon.listening_loop import load_listening
from edge_client.detection.detector import Detector
from fleet_protocol.ready_bundles import find_bundle
from fleet_protocol.sample_sounds import takes
from tests.support.edge_commands import EdgeCommands
from tests.support.owner_page import OwnerPage
from tests.support.sounds import write_clips
from tests.support.taught_device import Device


@pytest.mark.slow
def test_a_device_hears_a_word_and_a_sound_and_the_owner_changes_a_kind(tmp_path, capsys):
    device = Device(tmp_path, find_bundle("words_and_sounds"), detector="false_accepts_per_hour = 20")
    rng = np.random.default_rng(5)
    synthesise(tmp_path / "words", ["computer", "water"], 1, 6, seed=0)
    later = {}
    for word in ("computer", "water"):
        *taught, heard = sorted((tmp_path / "words" / word).iterdir())
        later[word] = read_recording(heard, 16_000)
        (device.clips / word).mkdir(parents=True)
        for path in taught:
            shutil.copy(path, device.clips / word)
    (device.clips / "doorbell").mkdir()
    *taught, later["doorbell"] = takes("doorbell", 6, 16_000, rng)
    for number, take in enumerate(taught):
        (device.clips / "doorbell" / f"{number}.wav").write_bytes(encode_wave(take, 16_000))
    device.teach()

    def kinds():
        return {one["label"]: one["kind"] for one in device.state.expectations()}

    assert kinds() == {"doorbell": "sound", "computer": "word", "water": "word"}
    loaded = load_listening(device.config)
    assert loaded.lasting == {"doorbell"}
    detector = Detector(loaded, device.config.detector)
    stream = rng.normal(scale=1e-3, size=16_000 * 40).astype(np.float32)
    for at_s, label in ((8, "doorbell"), (18, "computer"), (28, "water")):
        stream[16_000 * at_s : 16_000 * at_s + len(later[label])] += later[label]
    events = [heard.event.label for part in np.split(stream, 80) for heard in detector.push(part)]
    assert [label for label in events if label != "unknown"] == ["doorbell", "computer", "water"]

    edge = EdgeCommands(tmp_path, capsys)
    assert "'doorbell', an everyday sound, 5 takes" in edge("clips")
    assert edge("clips", "kind", "doorbell", "word") == "'doorbell' is a word\n"
    device.teach()
    assert kinds()["doorbell"] == "word"
    edge("clips", "kind", "doorbell", "auto")
    device.teach()
    assert kinds()["doorbell"] == "sound"
    assert "you taught no sound called 'bell'" in edge("clips", "kind", "bell", "word", status=1)

    with OwnerPage(tmp_path / "edge.toml") as page, httpx.Client(base_url=page.url, timeout=180) as client:
        shown = client.get("/sounds").text
        assert "Change to: a word" in shown
        token = re.search(r'csrf-token" content="(\w+)"', shown)[1]

        def post(**fields):
            return client.post("/sounds/kind", data=fields, headers={"Origin": page.url, "X-CSRF-Token": token})

        assert "water is an everyday sound" in post(label="water", kind="sound").json()["message"]
        assert chosen_kinds(device.clips) == {"water": "sound"}
        for fields in ({"label": "water", "kind": "../x"}, {"label": "..", "kind": "word"}, {"label": "nobody"}):
            assert post(**fields).status_code == 409
        assert page.end() == (0, "")
    assert device.to_teach() is not None


def test_a_device_that_hears_one_kind_says_so(tmp_path, capsys):
    device = Device(tmp_path, find_bundle("base"))
    write_clips(device.clips, "yes", 1, seed=0)
    told = EdgeCommands(tmp_path, capsys)("clips", "kind", "yes", "sound", status=1)
    assert 'base hears one kind of sounds alone; `[model] bundle = "words_and_sounds"`' in told
