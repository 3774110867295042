"""A device on `base` that was taught melodies, and questions that it asks about others."""

import time

import numpy as np

from edge_client.features.front_end import open_front_end
from edge_client.owner import Teaching
from edge_client.owner_undo import changes, undo
from edge_client.questions.answers import store_of
from edge_client.questions.store import Question, sound_of
from fleet_protocol.bundle.ready_bundles import find_bundle
from tests.support.sounds import RATE, melody, write_clips
from tests.support.taught_device import Device

LABELS = ("kettle", "bell")


def taught(folder, **sections):
    """A device with clips of two sounds, which it has not learned yet."""
    device = Device(folder, find_bundle("base"), **sections)
    for label, sound in zip(LABELS, ("yes", "no"), strict=True):
        write_clips(device.clips, sound, 6, seed=3, name=label)
    return device


class Owner:
    """The owner of such a device; each call opens it anew, as each command does."""

    def __init__(self, folder, **sections):
        self.device = taught(folder, **sections)
        self.config, self.state = folder / "edge.toml", self.device.state

    @property
    def teaching(self):
        return Teaching.open(self.config)

    def undo(self):
        return undo(self.teaching, changes(self.teaching)[0])


def sound(name, seed=0):
    """A melody of tests/support/sounds.py, float32 [samples]."""
    return melody(name, np.random.default_rng([8, seed])).astype(np.float32)


def ask(config_path, label="kettle", window=None, *, detected=False, at=None):
    """Let a device ask whether a sound, heard just now, was a label; return the question."""
    teaching = Teaching.open(config_path)
    window = sound("up") if window is None else window
    question_id, data = sound_of(window, RATE)
    embedding = open_front_end(teaching.settings)(window[None])[0, 0]
    question = Question(question_id, time.time() - 5 if at is None else at, label, detected, 0.75, embedding)
    store_of(teaching).add(question, data)
    return question
