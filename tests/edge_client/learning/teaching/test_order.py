"""Phrases that share a part, said by a synthesiser, are told apart by the order in which their parts come."""

import dataclasses
import shutil

import numpy as np
import pytest

from edge_client.audio.recordings import loud_stretch
from edge_client.config.sections import DetectorConfig
from edge_client.daemon.listening_loop import load_listening
from edge_client.detection.detector import Detector
from edge_client.detection.thresholds import logits
from fleet_protocol.bundle.ready_bundles import find_bundle
from tests.support.phrases import phrases, said, write_takes
from tests.support.sounds import RATE
from tests.support.taught_device import Device

pytestmark = pytest.mark.slow
PHRASES = ("lights on", "lights off", "last song", "next song")


def hear(loaded, take, rng, before_s=1, seconds=4):
    """Return what is detected in a stream with a take in it, and the highest logit of a window, by label."""
    detector, alone = Detector(loaded, DetectorConfig()), Detector(loaded, DetectorConfig(average_s=0))
    stream = rng.normal(scale=0.005, size=seconds * RATE).astype(np.float32)
    stream[before_s * RATE : before_s * RATE + len(take)] += take
    found, scores = [], []
    for hop in np.split(stream, 4 * seconds):
        found += detector.push(hop)
        alone.push(hop)
        scores.append(alone.averaged)
    highest = logits(np.array(scores)).max(axis=0).tolist()
    return found, dict(zip(loaded.label_map.names, highest, strict=False))


@pytest.mark.parametrize("longer", [False, True])
def test_phrases_that_share_a_part_are_told_apart_by_their_order(tmp_path, longer):
    device = Device(tmp_path, find_bundle("words"))
    if longer:  # than a clip of the front end
        takes, _ = phrases(tmp_path / "said")
    else:
        takes = said(tmp_path / "said", PHRASES)
    for label, found in takes.items():
        write_takes(device.clips, label, found[:5])
    device.teach()
    loaded = load_listening(device.config)
    states = {label: len(one.before) for label, one in loaded.prototypes.items()}
    assert set(states.values()) <= ({2, 3} if longer else {1})
    after = [one.after for label, one in loaded.prototypes.items() if states[label]]
    assert after
    for products in [ways @ ways.T for ways in after]:  # of the two ways in which a stream may go on
        assert np.diag(products) == pytest.approx([1, 1], abs=1e-5)
        assert products[0, 1] < 0.99
    alone = {label: one._replace(before=one.before[:0]) for label, one in loaded.prototypes.items()}

    def margins(prototypes):
        """By how much every take scores higher for its own phrase than for another, at its highest, as logits."""
        found, rng = [], np.random.default_rng(3)
        for label, take in [(label, take) for label, every in takes.items() for take in every[5:]]:
            _, best = hear(dataclasses.replace(loaded, prototypes=prototypes), take, rng)
            own = best.pop(label)
            found.append(own - max(best.values()))
        return np.array(found)

    before, now = margins(alone), margins(loaded.prototypes)
    assert now.min() > before.min()  # the one that is most like another
    assert np.median(now) > np.median(before) + 1


@pytest.mark.parametrize(("word", "other"), [("marvin", "starvin"), ("turn off the lights", "put on the lights")])
def test_what_the_owner_said_is_not_a_word_is_taken_for_it_no_more(word, other, tmp_path):
    """What ends like the label, by the same speaker; three of its sayings were said not to be the label."""
    device = Device(tmp_path, find_bundle("words"))
    takes = said(tmp_path / "said", (word, other))
    write_takes(device.clips, word, takes[word][:5])

    def highest(label):
        """The highest logit for the word of each take that was not learned."""
        loaded, rng = load_listening(device.config), np.random.default_rng(3)
        return np.array([hear(loaded, take, rng)[1][word] for take in takes[label][5:]])

    device.teach()
    before = {label: np.median(highest(label)) for label in (word, other)}
    write_takes(device.clips / "_not_", word, takes[other][:3])
    device.teach()
    now = {label: np.median(highest(label)) for label in before}
    assert now[other] < before[other] - 2.5
    assert now[word] > before[word] - 1


def test_of_a_phrase_that_was_heard_the_whole_is_kept_and_confirming_it_does_no_harm(tmp_path):
    device = Device(tmp_path, find_bundle("words"))
    takes, _ = phrases(tmp_path / "said")
    for label, found in takes.items():
        write_takes(device.clips, label, found[:5])
    device.teach()

    def heard(take):
        return hear(load_listening(device.config), take, np.random.default_rng(3), before_s=2, seconds=6)

    label, kept = next(iter(takes)), []
    for take in takes[label][5:9]:
        found, _ = heard(take)
        kept += [one.sound for one in found if one.event.label == label]
        begin, end = loud_stretch(take, RATE)
    assert len(kept) >= 3
    for sound in kept:
        first, last = loud_stretch(sound, RATE)
        assert last - first > 0.8 * (end - begin)
    before = np.array([heard(take)[1][label] for take in takes[label][9:]])
    write_takes(device.clips / "confirmed", label, kept)
    for path in (device.clips / "confirmed" / label).iterdir():
        path.rename(device.clips / label / f"confirmed-{path.name}")
    shutil.rmtree(device.clips / "confirmed")
    device.teach()
    now = np.array([heard(take)[1][label] for take in takes[label][9:]])
    assert np.median(now) > np.median(before) - 0.5


def test_a_phrase_that_is_taught_by_naming_what_was_unknown_is_taught_whole(tmp_path):
    device = Device(tmp_path, find_bundle("words"))
    takes, swapped = phrases(tmp_path / "said")
    label = next(iter(takes))

    detector, kept = Detector(load_listening(device.config), DetectorConfig(unknown_refractory_s=1)), []
    for take in takes[label][:6]:
        room = np.random.default_rng(3).normal(scale=0.001, size=4 * RATE).astype(np.float32)
        kept += [one.sound for one in detector.push(np.concatenate([room, take, room]))]
    for sound, take in zip(kept, takes[label][:6], strict=True):
        (first, last), (begin, end) = loud_stretch(sound, RATE), loud_stretch(take, RATE)
        assert last - first > 0.9 * (end - begin)
    write_takes(device.clips, label, kept)
    device.teach()
    loaded = load_listening(device.config)
    assert len(loaded.prototypes[label].before) >= 2

    def best(takes):
        return np.median([hear(loaded, take, np.random.default_rng(3))[1][label] for take in takes[label][6:]])

    assert best(takes) > best(swapped) + 2
