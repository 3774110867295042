"""What a front end knows of everyday sounds and of words with nothing taught."""

import dataclasses

import numpy as np
import pytest

from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.errors import BundleError
from fleet_protocol.numbers.embedding_statistics import EmbeddingStatistics
from fleet_protocol.numbers.joint_statistics import join
from fleet_protocol.numbers.known import ONCE_AN_HOUR, Known, KnownSounds, KnownWords
from fleet_protocol.numbers.tensors import pack, unpack

RNG = np.random.default_rng(0)
KNOWN = KnownSounds(
    ("bell", "dog"),
    RNG.standard_normal((6, 8)).astype(np.float32),
    RNG.standard_normal(8).astype(np.float32),
    RNG.standard_normal((8, 3)).astype(np.float32),
    RNG.standard_normal(3).astype(np.float32),
    np.array([0, 1, 1]),
)


def statistics_of(name):
    return read_bundle(find_bundle(name)).manifest.embedding_statistics


def test_a_label_has_the_highest_logit_of_its_classes_in_the_order_asked_for():
    x = RNG.standard_normal((5, 6)).astype(np.float32)
    hidden = x @ KNOWN.hidden + KNOWN.hidden_bias
    classes = (hidden * np.clip(hidden + 3, 0, 6) / 6) @ KNOWN.rows + KNOWN.bias
    wanted = np.stack([classes[:, 1:].max(axis=1), classes[:, 0]], axis=1)
    np.testing.assert_allclose(KNOWN.logits(x, ("dog", "bell")), wanted, rtol=1e-5)
    before = np.concatenate([np.ones((5, 2), np.float32), x], axis=1)  # the other network's numbers come first
    np.testing.assert_allclose(KNOWN.logits(before, ("dog",)), wanted[:, :1], rtol=1e-5)
    assert KNOWN.logits(x[:0], ("dog",)).shape == (0, 1)
    with pytest.raises(ValueError, match="not in"):
        KNOWN.logits(x, ("cat",))


def test_a_word_s_logit_is_that_of_its_share_among_all_words_and_noise():
    known = KnownWords(("up", "no"), RNG.standard_normal((6, 3)).astype(np.float32), np.zeros(3, np.float32))
    x = RNG.standard_normal((5, 6)).astype(np.float32)
    shares = np.exp(x @ known.kernel)
    shares /= shares.sum(axis=1, keepdims=True)
    wanted = np.log(shares / (1 - shares))[:, [1, 0]]
    after = np.concatenate([x, np.ones((5, 2), np.float32)], axis=1)  # the other network's numbers come last
    np.testing.assert_allclose(known.logits(after, ("no", "up")), wanted, rtol=1e-4)
    assert np.isfinite(known.logits(1e4 * x, ("no", "up"))).all()
    assert known.logits(x[:0], ("no",)).shape == (0, 1)
    both = Known(KNOWN, known)
    assert (both.names, both.words) == (("bell", "dog", "up", "no"), ("up", "no"))
    mixed = both.logits(x, ("no", "bell"))
    np.testing.assert_array_equal(mixed, np.hstack([known.logits(x, ("no",)), KNOWN.logits(x, ("bell",))]))
    for one in (both, Known(KNOWN), Known()):
        with pytest.raises(ValueError, match="not in"):
            one.logits(x, ("down",))
    assert (Known().names, Known().logits(x, ()).shape) == ((), (5, 0))


def test_front_ends_know_sounds_or_words_or_both():
    one, two, both = (statistics_of(name).known for name in ("sounds", "sounds_2s", "words_and_sounds"))
    assert one.names == two.names == both.sounds
    assert {"doorbell", "smoke detector", "baby cry", "dog", "glass"} <= set(one.names)
    words, sounds = statistics_of("words"), statistics_of("sounds")
    assert {"stop", "computer", "dog"} <= set(words.known.names) == set(words.words)
    assert {"stop", "computer"} <= set(both.words) == set(words.words) - {"cat", "dog", "speech"}  # those are sounds
    assert statistics_of("base").known.names == ()
    joined = join(words, sounds)
    rows = joined.samples[-3]
    np.testing.assert_array_equal(
        joined.known.logits(rows, ("siren",)), sounds.known.logits(rows[:, joined.split :], ("siren",))
    )


def test_clips_of_a_word_are_that_word_and_talk_and_noise_are_none():
    statistics = statistics_of("words")
    right = 0
    for word, clips in zip(statistics.words, statistics.samples, strict=True):
        right += (statistics.known.logits(clips, statistics.words).argmax(axis=1) == statistics.words.index(word)).sum()
    assert right > 0.95 * statistics.samples[..., 0].size
    talk = statistics.speech.draw(statistics.speech.means[0], 2_000, np.random.default_rng(1))
    assert (statistics.known.logits(talk, statistics.words) < 1.0).mean() > 0.995
    assert (statistics.known.logits(statistics.noise, statistics.words) < 1.0).all()


@pytest.mark.parametrize("name", ["sounds", "sounds_2s"])
def test_talk_and_noise_reach_no_sound_s_threshold(name):
    statistics = statistics_of(name)
    talk = statistics.speech.draw(statistics.speech.means[0], 2_000, np.random.default_rng(1))
    others = tuple(sound for sound in statistics.known.names if sound != "speech")
    for rows in (talk, statistics.noise):
        assert (statistics.known.logits(rows, others) < ONCE_AN_HOUR).mean() > 0.999


@pytest.mark.parametrize(
    "changed",
    [
        {"known_rows": None},
        {"known_rows": np.zeros((8, 2), np.float16)},
        {"known_hidden": np.zeros(6, np.float16)},
        {"known_bias": np.zeros((3, 1), np.float16)},
        {"known_sound": np.array([0, 1, 2])},
        {"known_sound": np.array([-1, 0, 1])},
        {"known_sound": np.array([0, 0, 0])},
    ],
)
def test_a_bundle_whose_rows_do_not_fit_is_refused(changed):
    arrays = {name: array for name, array in (KNOWN.arrays() | changed).items() if array is not None}
    with pytest.raises(BundleError, match="cannot be read"):
        KnownSounds.of(arrays, ["bell", "dog"])


@pytest.mark.parametrize(
    "changed",
    [
        {"known_words_bias": None},
        {"known_words_kernel": None},
        {"known_words_kernel": np.zeros((312, 61), np.float16)},
        {"known_words_kernel": np.zeros((311, 62), np.float16)},
        {"known_words_bias": np.zeros((62, 1), np.float16)},
    ],
)
def test_a_bundle_whose_words_do_not_fit_is_refused(changed):
    arrays, document = unpack(statistics_of("words").pack())
    changed = {name: array for name, array in (arrays | changed).items() if array is not None}
    with pytest.raises(BundleError, match="the built-in words do not fit"):
        EmbeddingStatistics.unpack(pack(changed, document))


def test_rows_of_another_network_are_refused():
    statistics = dataclasses.replace(statistics_of("sounds"), known=Known(KNOWN))
    with pytest.raises(BundleError, match="of another network"):
        EmbeddingStatistics.unpack(statistics.pack())
    assert "known" in unpack(statistics.pack())[1]
