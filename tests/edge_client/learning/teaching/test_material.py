"""What a head is trained on of classes that the fleet described by prototypes."""

import numpy as np
import pytest

from edge_client.clips.folders import SOUND, WORD
from edge_client.learning.teaching.fleet_sounds import FleetSounds
from edge_client.learning.teaching.heard import Embeddings
from edge_client.learning.teaching.material import material_of
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.numbers.fleet_prototypes import FleetPrototypes


def material(manifest, takes, mean, devices=1):
    """The sounds of one label, a class "c0" of the fleet that calls it what no word is called, and their scatter."""
    statistics = manifest.embedding_statistics
    labels = LabelMap(manifest.capacity, reserved=len(manifest.background)).add("sound-0", "c0")
    fleet = FleetPrototypes("", ("c0",), mean[None, None], np.array([devices]), ())
    nothing = np.zeros((0, 64), np.float32)
    heard = Embeddings({} if takes is None else {"sound-0": takes}, nothing, nothing)
    of_fleet = FleetSounds.of(None, fleet, statistics, np.random.default_rng(0))
    found = material_of(labels, [0], heard, manifest, of_fleet)
    return found, next(sound for sound in found.sounds if sound.slot == 0)


def test_a_class_without_clips_is_drawn_around_its_prototype_more_widely_the_fewer_devices_have_it(manifest):
    mean = manifest.embedding_statistics.means[3]
    spread = {}
    for devices in (1, 8):
        found, sound = material(manifest, None, mean, devices)
        assert len(sound.rows) == 0
        rows = found.rows(sound, 4_000, np.random.default_rng(1))
        np.testing.assert_allclose(rows.mean(axis=0), mean, atol=0.2 * rows.std(axis=0).max())
        spread[devices] = float(rows.var(axis=0).sum())
    assert spread[1] > 1.5 * spread[8]


def test_the_word_that_a_class_sounds_like_is_not_taught_as_something_else(manifest):
    """The prototype alone says that this class without clips is the third word, whatever it is called."""
    words = len(manifest.embedding_statistics.words)
    for mean, others in ((manifest.embedding_statistics.means[3], words - 1), (-10 * np.ones(64, np.float32), words)):
        found, _ = material(manifest, None, mean)
        of_words = {sound.slot for sound in found.sounds} & set(range(manifest.slots, manifest.slots + words))
        assert len(of_words) == others


def test_beside_clips_of_its_own_a_device_believes_a_prototype_that_sounds_like_them(manifest):
    statistics = manifest.embedding_statistics
    takes = statistics.draw(statistics.means[3], 5, np.random.default_rng(2))[:, None]
    _, alone = material(manifest, takes, statistics.means[3] * np.nan)
    _, helped = material(manifest, takes, statistics.means[3])
    _, deceived = material(manifest, takes, statistics.means[9])
    assert [len(sound.centres) for sound in (alone, helped, deceived)] == [1, 1, 1]
    np.testing.assert_allclose(helped.centres[0], statistics.means[3], atol=1e-3)
    for sound in (alone, deceived):
        np.testing.assert_allclose(sound.centres[0], takes.mean(axis=(0, 1)), atol=1e-4)
    np.testing.assert_array_equal(deceived.rows, takes[:, 0])


@pytest.mark.parametrize(("takes", "denied", "rows"), [(10, 1, 5), (10, 3, 15), (10, 20, 25), (25, 1, 2), (0, 1, 5)])
def test_what_is_not_a_label_counts_as_a_take_each_and_as_half_of_the_takes_at_most(manifest, takes, denied, rows):
    """A label of ten takes has 50 rows in a pass: five for each take. Of one without takes, ten are thought."""
    statistics, rng = manifest.embedding_statistics, np.random.default_rng(3)
    labels = LabelMap(manifest.capacity, reserved=len(manifest.background)).add("sound-0", "c0")
    known = {"sound-0": statistics.draw(statistics.means[3], takes, rng)[:, None]} if takes else {}
    wrong = statistics.draw(statistics.means[9], denied, rng)[:, None]
    nothing = np.zeros((0, 64), np.float32)

    def material_with(rejected):
        heard = Embeddings(known, nothing, nothing, rejected)
        return material_of(labels, [0], heard, manifest, FleetSounds(centres={"c0": statistics.means[[3]]}))

    x, targets = material_with({"sound-0": wrong}).one_pass(labels.capacity, np.random.default_rng(4))
    assert (x[:, None] == wrong.reshape(-1, 64)).all(axis=2).any(axis=1).sum() == rows
    assert len(x) == len(material_with({}).one_pass(labels.capacity, np.random.default_rng(4))[0]) + rows
    assert (targets[:, 0] == 1).sum() == (50 if takes else 100)  # without takes, of the fleet's prototype


def denials(manifest, said, *, takes=None, other=None):
    """What a device learns of sounds that the fleet says are not its label: of which it has takes, or a prototype.

    It is the sounds' words, by which other sounds are drawn; ``other`` is the word of a second label with takes.
    """
    statistics = manifest.embedding_statistics
    rng = np.random.default_rng(3)
    labels = LabelMap(manifest.capacity, reserved=len(manifest.background)).add("sound-0", "c0").add("sound-1", "c1")
    heard = {}
    if takes is not None:
        heard["sound-0"] = statistics.draw(statistics.means[takes], 4, rng)[:, None]
    if other is not None:
        heard["sound-1"] = statistics.draw(statistics.means[other], 4, rng)[:, None]
    nothing = np.zeros((0, 64), np.float32)
    fleet = {"c0": statistics.means[[3]]} if takes is None else {}
    denied = {"c0": statistics.means[list(said)], "c7": statistics.means[:1]}
    plain, found = (
        material_of(labels, [0], Embeddings(heard, nothing, nothing), manifest, FleetSounds(None, fleet, others))
        for others in ({}, denied)
    )
    assert [sound.slot for sound in found.sounds[: len(plain.sounds)]] == [sound.slot for sound in plain.sounds]
    more = found.sounds[len(plain.sounds) :]
    assert {sound.slot for sound in more} <= {labels.background[-2]}
    assert all(len(sound.centres) == 0 for sound in more)  # no threshold is set by what others say
    means = [np.linalg.norm(statistics.means - sound.rows.mean(axis=0), axis=1).argmin() for sound in more]
    return sorted(means), sum(sound.share for sound in more)


def test_what_the_fleet_says_is_not_a_label_is_learned_as_no_label_and_however_much_it_says_it_weighs_little(manifest):
    assert denials(manifest, [9]) == ([9], pytest.approx(0.2))
    assert denials(manifest, [9], takes=3) == ([9], pytest.approx(0.2))
    found, share = denials(manifest, [9, 20, 25, 30])
    assert found == [9, 20, 25, 30]
    assert share == pytest.approx(0.4)


def test_a_device_does_not_believe_that_a_label_is_not_itself_or_that_what_it_was_taught_is_nothing(manifest):
    assert denials(manifest, [3, 9]) == ([9], pytest.approx(0.2))  # it has the prototype alone
    assert denials(manifest, [3, 9], takes=3) == ([9], pytest.approx(0.2))
    assert denials(manifest, [9, 20], takes=3, other=9) == ([20], pytest.approx(0.2))
    assert denials(manifest, [3], takes=3) == ([], 0)


def test_on_a_front_end_that_hears_both_a_denied_word_gets_the_sounds_half_of_any_word():
    manifest = read_bundle(find_bundle("words_and_sounds")).manifest
    statistics = manifest.embedding_statistics
    labels = LabelMap(manifest.capacity, reserved=len(manifest.background)).add("sound-0", "c0")
    numbers = statistics.means.shape[1]
    nothing = np.zeros((0, numbers), np.float32)
    words = np.flatnonzero(~statistics.are_sounds)
    denied = {"c0": statistics.means[[words[9], np.flatnonzero(statistics.are_sounds)[0]]]}
    fleet = {"c0": statistics.means[[words[3]]]}
    heard = Embeddings({}, nothing, nothing)
    found = material_of(labels, [0], heard, manifest, FleetSounds(None, fleet, denied))
    assert [sound.kind for sound in found.sounds[-2:]] == [WORD, SOUND]
    rows = found.rows(found.sounds[-2], 400, np.random.default_rng(0))
    halves = rows[:, statistics.split :].mean(axis=0)
    from_talk = np.linalg.norm(halves - statistics.talk.mean(axis=0))
    assert from_talk < np.linalg.norm(halves - statistics.means[statistics.are_sounds, statistics.split :].mean(axis=0))
