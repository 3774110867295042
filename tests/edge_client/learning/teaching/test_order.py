"""Phrases that share a part, said by a synthesiser, are told apart by the order in which their parts come."""

import dataclasses
import shutil

import numpy as np
import pytest

from demo.corpus import synthesise
from edge_client.audio.recordings import read_recording
from edge_client.config.sections import DetectorConfig
from edge_client.daemon.listening_loop import load_listening
from edge_client.detection.detector import Detector
from edge_client.detection.thresholds import logits
from fleet_protocol.ready_bundles import find_bundle
from tests.support.sounds import RATE
from tests.support.taught_device import Device

pytestmark = pytest.mark.slow


def test_phrases_that_share_a_part_are_told_apart_by_their_order(tmp_path):
    phrases = ("lights on", "lights off", "last song", "next song")
    synthesise(tmp_path / "said", phrases, speakers=1, takes=13, seed=1)
    device, later = Device(tmp_path, find_bundle("words")), {}
    for label in phrases:
        takes = sorted((tmp_path / "said" / label).iterdir())
        (device.clips / label).mkdir(parents=True)
        for take in takes[:5]:
            shutil.copy(take, device.clips / label)
        later[label] = [read_recording(take, RATE)[:RATE] for take in takes[5:]]
    device.teach()
    loaded = load_listening(device.config)
    alone = {label: one._replace(before=np.zeros_like(one.before)) for label, one in loaded.prototypes.items()}

    def margins(prototypes):
        """By how much every take scores higher for its own phrase than for another, at its highest, as logits."""
        found, rng = [], np.random.default_rng(3)
        for label, take in [(label, take) for label, takes in later.items() for take in takes]:
            detector = Detector(dataclasses.replace(loaded, prototypes=prototypes), DetectorConfig())
            stream = rng.normal(scale=0.005, size=3 * RATE).astype(np.float32)
            stream[RATE : RATE + len(take)] += take
            scores = []
            for hop in np.split(stream, 12):
                detector.push(hop)
                scores += [detector.scores] if len(detector.scores) else []
            best = dict(zip(loaded.label_map.names, logits(np.array(scores)).max(axis=0).tolist(), strict=False))
            own = best.pop(label)
            found.append(own - max(best.values()))
        return np.array(found)

    before, now = margins(alone), margins(loaded.prototypes)
    assert now.min() > before.min()  # the one that is most like another
    assert np.median(now) > np.median(before) + 1
