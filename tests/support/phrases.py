"""Phrases said by a synthesiser, put together of parts that several of them share."""

import itertools

import numpy as np

from demo.corpus import synthesise
from edge_client.audio.recordings import encode_wave, loud_stretch, read_recording
from tests.support.sounds import RATE

BEGINNINGS, ENDS = ("please lower", "please raise"), ("the kitchen lights", "the bedroom lights")


def said(folder, labels):
    """Return the thirteen takes of each label by one speaker."""
    synthesise(folder, labels, speakers=1, takes=13, seed=1)
    return {label: [read_recording(take, RATE) for take in sorted((folder / label).iterdir())] for label in labels}


def joined(first, second):
    """Return two takes behind one another, with the room beside them."""
    parts = [take[slice(*loud_stretch(take, RATE))] for take in (first, second)]
    room = np.random.default_rng(2).normal(scale=0.0005, size=RATE // 4).astype(np.float32)
    return np.concatenate([room, parts[0], room[: RATE // 20], parts[1], room])


def phrases(folder):
    """Return thirteen takes of each of four phrases longer than a clip, and of those with their parts exchanged."""
    parts = said(folder, (*BEGINNINGS, *ENDS))
    pairs = {f"{one} {other}": (parts[one], parts[other]) for one, other in itertools.product(BEGINNINGS, ENDS)}
    takes = {label: [joined(*both) for both in zip(*pair, strict=True)] for label, pair in pairs.items()}
    swapped = {label: [joined(*both) for both in zip(*pair[::-1], strict=True)] for label, pair in pairs.items()}
    assert all(len(take) > 1.6 * RATE for take in itertools.chain(*takes.values()))
    return takes, swapped


def write_takes(clips, label, takes):
    """Keep takes as an owner's clips of a label."""
    (clips / label).mkdir(parents=True)
    for number, take in enumerate(takes):
        (clips / label / f"{number}.wav").write_bytes(encode_wave(take, RATE))
