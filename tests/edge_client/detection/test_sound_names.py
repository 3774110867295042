"""Guesses at what a sound is: words that are likely enough, by rows of the same network alone."""

import dataclasses
import io
import zipfile

import numpy as np
import pytest

from edge_client.detection.sound_names import FILE, Guesser, LatelyHeard, SoundNames
from edge_client.features.front_end import open_front_end
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.errors import BundleError
from fleet_protocol.ground import sample_sounds
from fleet_protocol.numbers.known import KnownSounds
from fleet_protocol.numbers.tensors import pack, unpack

RNG = np.random.default_rng(0)
NAMES = SoundNames(
    "f00d",
    ("bell", "dog", "rain"),
    np.eye(4, 5, dtype=np.float32) + RNG.uniform(0, 0.1, (4, 5)).astype(np.float32),
    RNG.uniform(-0.1, 0, 5).astype(np.float32),
    np.array([0, 1, 3]),
)
KNOWN = KnownSounds(
    ("bell",),
    np.eye(6, 4, dtype=np.float32),
    np.full(4, 3, np.float32),
    np.zeros((4, 1), np.float32),
    np.zeros(1, np.float32),
    np.array([0]),
)


def guesser_of(name):
    manifest = read_bundle(find_bundle(name)).manifest
    return Guesser.of(manifest.feature_settings, manifest.embedding_statistics)


@pytest.fixture
def guesser(tmp_path):
    (tmp_path / "names").write_bytes(NAMES.pack())
    return Guesser(KNOWN, "f00d", tmp_path / "names")


def test_a_word_has_the_highest_logit_of_its_classes_and_all_share_one_softmax():
    units = RNG.standard_normal((7, 4)).astype(np.float32)
    logits = units @ NAMES.rows + NAMES.bias
    words = np.exp(np.stack([logits[:, 0], logits[:, 1:3].max(axis=1), logits[:, 3:].max(axis=1)], axis=1))
    np.testing.assert_allclose(NAMES.shares(units), words / words.sum(axis=1, keepdims=True), rtol=1e-5)
    assert NAMES.shares(1e6 * units).max() == 1.0  # and no overflow


def test_what_is_not_likely_enough_is_not_guessed(guesser):
    def likeliest(*shares):
        return tuple(guesser.likeliest(np.array(shares, np.float32)))

    assert likeliest(0.2, 0.45, 0.35) == ("dog", "rain")
    assert likeliest(0.95, 0.05, 0.0) == ("bell",)
    assert likeliest(0.2, 0.15, 0.16) == ("bell", "rain", "dog")
    assert likeliest(0.2, 0.1, 0.1) == ()
    assert likeliest(np.nan, np.nan, np.nan) == ()


def test_the_last_ten_seconds_are_named_and_no_more(guesser):
    lately, bell, dog = LatelyHeard(guesser), *(9 * np.eye(6, dtype=np.float32)[:2])
    first, second = "bell", "dog"
    assert [word for word, _ in lately.update(0.0, bell)] == [first]
    found = dict(lately.update(6.0, dog))
    assert {first, second} <= set(found)
    assert all(0.5 <= share <= 1 for share in found.values())
    assert [word for word, _ in lately.update(10.5, None)] == [second]  # which was heard 4.5 s ago
    assert lately.update(16.5, None) == []
    lately.update(20.0, dog)
    assert lately.update(1.0, None) == []  # the clock was set back


@pytest.mark.parametrize("name", ["sounds", "sounds_2s", "words_and_sounds"])
def test_bundles_that_hear_sounds_guess_what_an_alarm_is(name):
    manifest = read_bundle(find_bundle(name)).manifest
    settings = manifest.feature_settings
    takes = sample_sounds.takes("alarm", 4, settings.clip_samples, np.random.default_rng(1))
    embeddings = open_front_end(settings)(takes).reshape(4, -1)
    guesses = [guesser_of(name).guess(row) for row in embeddings]
    assert any({"smoke detector", "buzzer", "alarm clock"} & set(guess) for guess in guesses), guesses


@pytest.mark.parametrize("name", ["words", "base", "cnn2"])
def test_others_guess_nothing(name):
    assert guesser_of(name) is None


def test_without_rows_of_its_own_network_nothing_is_guessed(guesser, tmp_path):
    embedding = 9 * np.eye(6, dtype=np.float32)[3]
    assert guesser.guess(embedding) == ("rain",)
    for other in (
        dataclasses.replace(guesser, network="beef"),
        dataclasses.replace(guesser, path=tmp_path / "none"),
        dataclasses.replace(guesser, known=dataclasses.replace(KNOWN, hidden=np.eye(6, 3, dtype=np.float32))),
    ):
        assert other.names is None
        if other.known is KNOWN:
            assert other.guess(embedding) == ()
            assert LatelyHeard(other).update(0.0, embedding) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"rows": None},
        {"rows": np.zeros((4, 6), np.float16)},
        {"rows": np.full((4, 5), np.nan, np.float16)},
        {"rows": np.zeros(5, np.float16)},
        {"bias": np.zeros((5, 1), np.float32)},
        {"first": np.array([0, 1])},
        {"first": np.array([0, 3, 1])},
        {"first": np.array([1, 2, 3])},
        {"first": np.array([0, 1, 9])},
        {"first": np.array([0, 1, 1 << 62])},
    ],
)
def test_rows_that_do_not_fit_are_refused(changed, tmp_path):
    arrays, document = unpack(NAMES.pack())
    arrays = {name: array for name, array in (arrays | changed).items() if array is not None}
    (tmp_path / "names").write_bytes(pack(arrays, document))
    with pytest.raises(BundleError, match="cannot be read"):
        SoundNames.read(tmp_path / "names")


def test_a_damaged_file_is_refused(tmp_path):
    whole = NAMES.pack()
    for data in (b"", whole[:-1], whole[:40], b"\xff" * 100, whole + b"x"):
        (tmp_path / "names").write_bytes(data)
        with pytest.raises(BundleError, match="cannot be read"):
            SoundNames.read(tmp_path / "names")


def test_the_file_is_small_in_the_wheel():
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(FILE, FILE.name)
    assert wheel.tell() <= 500_000
