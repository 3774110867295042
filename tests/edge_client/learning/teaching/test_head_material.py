"""What a head is trained on of classes that the fleet described by prototypes."""

import numpy as np
import pytest

from edge_client.learning.teaching.head import centres
from edge_client.learning.teaching.head_material import Heard, head_material
from fleet_protocol.bundle import read_bundle
from fleet_protocol.fleet_prototypes import FleetPrototypes
from fleet_protocol.labels import LabelMap
from fleet_protocol.ready_bundles import find_bundle


@pytest.fixture(scope="module")
def manifest():
    return read_bundle(find_bundle("base")).manifest


def material(manifest, takes, mean, devices=1):
    """The sounds of one label, a class "c0" of the fleet that calls it what no word is called, and their scatter."""
    statistics = manifest.embedding_statistics
    labels = LabelMap(manifest.capacity, reserved=len(manifest.background)).add("sound-0", "c0")
    fleet = FleetPrototypes("", ("c0",), mean[None, None], np.array([devices]), ())
    nothing = np.zeros((0, 64), np.float32)
    heard = Heard({} if takes is None else {"sound-0": takes}, nothing, nothing)
    of_fleet = centres(fleet, statistics, np.random.default_rng(0))
    found = head_material(labels, [0], heard, statistics, None, pytest.fail, of_fleet)
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


def test_beside_a_fleet_there_is_what_the_device_s_own_takes_alone_tell(manifest):
    statistics = manifest.embedding_statistics
    takes = statistics.draw(statistics.means[3], 5, np.random.default_rng(2))[:, None]
    found, _ = material(manifest, takes, statistics.means[4])
    assert found.own is not None
    assert found.own.own is None
    mine = next(sound for sound in found.own.sounds if sound.slot == 0)
    np.testing.assert_allclose(mine.centres, takes.mean(axis=0), atol=1e-4)
    without_takes, _ = material(manifest, None, statistics.means[3])
    assert without_takes.own is None


@pytest.mark.parametrize(("takes", "denied", "rows"), [(10, 1, 5), (10, 3, 15), (10, 20, 25), (25, 1, 2), (0, 1, 5)])
def test_what_is_not_a_label_counts_as_a_take_each_and_as_half_of_the_takes_at_most(manifest, takes, denied, rows):
    """A label of ten takes has 50 rows in a pass: five for each take. Of one without takes, ten are thought."""
    statistics, rng = manifest.embedding_statistics, np.random.default_rng(3)
    labels = LabelMap(manifest.capacity, reserved=len(manifest.background)).add("sound-0")
    known = {"sound-0": statistics.draw(statistics.means[3], takes, rng)[:, None]} if takes else {}
    wrong = statistics.draw(statistics.means[9], denied, rng)[:, None]
    nothing = np.zeros((0, 64), np.float32)

    def material_with(rejected):
        heard = Heard(known, nothing, nothing, rejected)
        return head_material(labels, [0], heard, statistics, None, lambda _: statistics.means[[3]])

    x, targets = material_with({"sound-0": wrong}).one_pass(labels.capacity, np.random.default_rng(4))
    assert (x[:, None] == wrong.reshape(-1, 64)).all(axis=2).any(axis=1).sum() == rows
    assert len(x) == len(material_with({}).one_pass(labels.capacity, np.random.default_rng(4))[0]) + rows
    assert (targets[:, 0] == 1).sum() == 50
