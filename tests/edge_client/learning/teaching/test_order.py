"""Phrases that share a part, said by a synthesiser, are told apart by the order in which their parts come."""

import dataclasses
import itertools

import numpy as np
import pytest

from demo.corpus import synthesise
from edge_client.audio.recordings import encode_wave, loud_stretch, read_recording
from edge_client.config.sections import DetectorConfig
from edge_client.daemon.listening_loop import load_listening
from edge_client.detection.detector import Detector
from edge_client.detection.thresholds import logits
from fleet_protocol.ready_bundles import find_bundle
from tests.support.sounds import RATE
from tests.support.taught_device import Device

pytestmark = pytest.mark.slow
PHRASES = ("lights on", "lights off", "last song", "next song")
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


@pytest.mark.parametrize("longer", [False, True])
def test_phrases_that_share_a_part_are_told_apart_by_their_order(tmp_path, longer):
    device = Device(tmp_path, find_bundle("words"))
    if longer:  # than a clip of the front end
        parts = said(tmp_path / "said", (*BEGINNINGS, *ENDS))
        takes = {
            f"{one} {other}": [joined(*both) for both in zip(parts[one], parts[other], strict=True)]
            for one, other in itertools.product(BEGINNINGS, ENDS)
        }
        assert all(len(take) > 1.6 * RATE for take in itertools.chain(*takes.values()))
    else:
        takes = said(tmp_path / "said", PHRASES)
    for label, found in takes.items():
        (device.clips / label).mkdir(parents=True)
        for number, take in enumerate(found[:5]):
            (device.clips / label / f"{number}.wav").write_bytes(encode_wave(take, RATE))
    device.teach()
    loaded = load_listening(device.config)
    states = {label: len(one.before) for label, one in loaded.prototypes.items()}
    assert set(states.values()) <= ({2, 3} if longer else {1})
    alone = {label: one._replace(before=one.before[:0]) for label, one in loaded.prototypes.items()}

    def margins(prototypes):
        """By how much every take scores higher for its own phrase than for another, at its highest, as logits."""
        found, rng = [], np.random.default_rng(3)
        for label, take in [(label, take) for label, every in takes.items() for take in every[5:]]:
            detector = Detector(dataclasses.replace(loaded, prototypes=prototypes), DetectorConfig())
            stream = rng.normal(scale=0.005, size=4 * RATE).astype(np.float32)
            stream[RATE : RATE + len(take)] += take
            scores = []
            for hop in np.split(stream, 16):
                detector.push(hop)
                scores += [detector.scores] if len(detector.scores) else []
            best = dict(zip(loaded.label_map.names, logits(np.array(scores)).max(axis=0).tolist(), strict=False))
            own = best.pop(label)
            found.append(own - max(best.values()))
        return np.array(found)

    before, now = margins(alone), margins(loaded.prototypes)
    assert now.min() > before.min()  # the one that is most like another
    assert np.median(now) > np.median(before) + 1
