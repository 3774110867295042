"""`auricle-edge learn`: clips, answers and the room at once, or why there is nothing to learn."""

import dataclasses
import json
import os
import time

import numpy as np
import pytest

from edge_client.config.sections import DetectorConfig
from edge_client.errors import WorkError
from edge_client.learning.teaching.at_once import learn_at_once
from edge_client.learning.teaching.room_material import helps
from edge_client.owner import Teaching
from edge_client.questions.answers import store_of
from edge_client.room.memory import layout_of
from edge_client.room.reservoir import Reservoir
from edge_client.room.store import write_sample
from edge_client.storage.database import ROOM_LEARNED
from fleet_protocol.bundle import read_bundle
from fleet_protocol.ready_bundles import find_bundle
from tests.support.asked_device import ask, sound, taught
from tests.support.edge_commands import EdgeCommands

QUIET = {"training": "nice = 0\nteach_epochs = 8"}  # this process must not become slower


def hear(state, hours):
    """Have a room be heard for so many hours, in which other words are said."""
    manifest = read_bundle(find_bundle("base")).manifest
    statistics, rng = manifest.embedding_statistics, np.random.default_rng(1)
    layout = layout_of(manifest, DetectorConfig())
    clock = [time.time() - 3600 * hours]
    room = Reservoir(layout, clock=lambda: clock[0], seed=0)
    for row in statistics.speech.draw(statistics.speech.means[0], int(3600 * hours / layout.hop_s), rng):
        clock[0] += layout.hop_s
        room.look(row, 0.1)
    write_sample(state.room_path, layout, room.sample())


@pytest.fixture
def device(tmp_path):
    return taught(tmp_path, **QUIET)


@pytest.fixture
def edge(device, capsys):
    return EdgeCommands(device.folder, capsys)


def test_clips_are_learned_and_then_there_is_nothing_more_until_the_room_is_known(device, edge):
    found = json.loads(edge("learn", "--json"))
    assert (found["clips"], found["hours"]) == (12, 0)
    assert found["room_left_out"] == "of the room 0.0 hours were heard, and 2 are needed"
    assert device.to_teach() is None
    hear(device.state, 1.0)
    assert "every clip is learned, and of the room 1.0 hours were heard, and 2 are needed" in edge("learn", status=1)
    hear(device.state, 2.5)
    before = device.state.model.key()
    out = edge("learn")
    helped, left_out = "and from 2 hours of the room", "not from the room: with it takes would be missed"
    assert out.startswith(f"learned from 12 clips, {helped if helps(device.state) else left_out}")
    assert "at" in device.state.database.note(ROOM_LEARNED)  # it was judged
    assert device.state.model.key() != before


def test_an_answer_that_was_cut_off_is_learned(device, edge):
    edge("learn")
    question = ask(edge.config, window=sound("up"))
    said = dataclasses.replace(question, said="yes", said_at=time.time(), folder="kettle")
    store_of(Teaching.open(edge.config)).replace(said)  # and no more
    assert "learned from 13 clips" in edge("learn")
    assert not list(device.state.questions_folder.glob("*.wav"))


def test_what_a_device_cannot_learn_at_once_is_said(tmp_path, capsys):
    for name, sections, words in (
        ("rounds", {"microphone": None}, "learns in rounds alone"),
        ("empty", {}, "there are no clips in"),
        ("off", {"learning": "room = false"}, "[learning] room = false"),
    ):
        folder = tmp_path / name
        folder.mkdir()
        device = taught(folder, **QUIET, **sections)
        if name == "empty":
            for path in device.clips.rglob("*.wav"):
                path.unlink()
        if name == "off":
            device.teach()
        assert words in EdgeCommands(folder, capsys)("learn", status=1)


def test_while_another_process_trains_nothing_is_learned(device):
    lock = device.state.lock("training")
    with pytest.raises(WorkError, match="the daemon is training now"):
        learn_at_once(device.config, device.state, 0.0)
    os.close(lock)
    assert learn_at_once(device.config, device.state, 0.0).clips == 12
