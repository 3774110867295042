"""Batches and their variants: repeatable, finite, balanced, and each clip under its class."""

import numpy as np
import pytest

from model_export.pretraining.batches import Augmentation, Batches, augment, coloured_noise
from model_export.pretraining.corpus import NOISE, SPEECH, Corpus

STILL = Augmentation(
    shift_frames=0, stretch=(1.0, 1.0), warp=(1.0, 1.0), gain_db=(0.0, 0.0), noise=0.0, mask_frames=0, mask_bands=0
)


@pytest.fixture
def corpus():
    """A frequent word that rises, a rare one that is steady, and noise."""
    rising = np.repeat(np.arange(100, 198, dtype=np.uint8)[:, None], 40, axis=1)
    steady = np.full((98, 40), 150, np.uint8)
    noise = np.full((98, 40), 40, np.uint8)
    pixels = np.stack([rising] * 400 + [steady] * 100 + [noise] * 4)
    words = np.array(["often"] * 400 + ["rare"] * 100 + [NOISE] * 4)
    return Corpus(pixels, words, np.array(["somebody"] * len(words)))


def test_a_word_played_backwards_is_a_class_of_its_own(corpus):
    x, classes = Batches(corpus, STILL, 300, 0.5, 0).draw(0)
    slope = x[:, -1].mean(axis=1) - x[:, 0].mean(axis=1)
    assert (slope[classes == 0] > 1).all()
    assert (slope[classes == 2] < -1).all()
    assert np.allclose(slope[np.isin(classes, (1, 3))], 0, atol=0.01)
    often, rare = np.isin(classes, (0, 2)).sum(), np.isin(classes, (1, 3)).sum()
    assert 1.3 < often / rare < 3  # 2 by n^0.5, 4 by n


def test_connected_speech_is_a_class_behind_noise_and_no_word(corpus):
    words = corpus.words.astype("<U12")
    words[:100] = SPEECH
    batches = Batches(Corpus(corpus.pixels, words, corpus.speakers), STILL, 300, 0.5, 0)
    x, classes = batches.draw(0)
    assert batches.corpus.vocabulary == ("often", "rare")
    assert batches.classes == 6
    assert set(classes) == set(range(6))
    slope = x[:, -1].mean(axis=1) - x[:, 0].mean(axis=1)
    assert (slope[classes == 5] > 1).all()  # never backwards
    assert np.allclose(slope[classes == 4], 0, atol=1)
    assert batches.forward_shares.shape == (3,)
    assert set(batches.variants(2)[1]) == {"often", "rare", NOISE}


def test_noise_stands_at_its_distance_in_power():
    clips = np.full((4, 98, 40), 2.0, np.float32)
    noise = np.full((4, 98, 40), -3.0, np.float32)
    settings = Augmentation(**{**vars(STILL), "noise": 1.0, "snr_db": (10.0, 10.0)})
    varied = augment(clips, noise, settings, np.random.default_rng(0))
    assert np.allclose(np.exp(varied), np.exp(2.0) * 1.1, rtol=1e-3)


def test_digital_silence_and_synthetic_noise_stay_finite():
    silence = np.full((8, 98, 40), np.log(1e-6), np.float32)
    rng = np.random.default_rng(1)
    assert np.isfinite(augment(silence, silence, Augmentation(), rng)).all()
    noise = coloured_noise(8, rng)
    assert noise.shape == (8, 98, 40)
    assert np.isfinite(noise).all()


def test_running_speech_joins_one_person_s_words_and_begins_anywhere():
    low, high, other = (np.full((98, 40), level, np.uint8) for level in (100, 140, 200))
    pixels = np.stack([low, high] * 4 + [other] * 4)
    people = np.array(["a"] * 8 + ["b"] * 4)
    corpus = Corpus(pixels, np.array(["no", "yes"] * 4 + ["up"] * 4), people)
    batches = Batches(corpus, STILL, 16, 0.5, 0)
    x = batches.running_speech(40)
    assert x.shape == (40, 98, 40)
    assert np.array_equal(x, batches.running_speech(40))
    levels = [set(np.round(window.mean(axis=1), 2)) for window in x]
    assert max(map(len, levels)) == 2
    of_b = max(max(found) for found in levels)
    assert {len(found) for found in levels if of_b in found} == {1}  # nobody's words follow another person's


def test_more_words_are_drawn_and_are_no_part_of_the_head(corpus):
    rising = np.repeat(np.arange(100, 198, dtype=np.uint8)[:, None], 40, axis=1)
    more = Corpus(np.stack([rising] * 4), np.array(["a", "a", "often", "often"]), np.array(["b"] * 4))
    batches = Batches(corpus, STILL, 400, 0.5, 0, more=more, power=0.1)
    _, classes = batches.draw(0)
    assert batches.classes == 7  # often, rare, a; each backwards; noise
    assert set(classes) == set(range(7))
    assert batches.head == [0, 1, 6]
    assert batches.forward_shares.shape == (3,)
    assert set(batches.variants(2)[1]) == {"often", "rare", NOISE}
    assert np.isin(classes, (0, 3)).sum() < 2 * np.isin(classes, (2, 5)).sum()  # by n^0.1 nearly as often


def test_rooms_add_what_follows_and_microphones_colour_the_bands():
    clips = np.full((6, 98, 40), np.log(1e-6), np.float32)
    clips[:, 20:30] = 3.0
    silence = np.full((6, 98, 40), np.log(1e-6), np.float32)
    still = {**vars(STILL), "rooms": 1.0}
    varied = augment(clips, silence, Augmentation(**still), np.random.default_rng(0))
    assert (varied[:, :20] < -11).all()  # nothing before the sound
    assert (np.diff(varied[:, 30:50].mean(axis=2), axis=1) < 0).all()
    assert (varied[:, 30] > -6).all()
    coloured = augment(clips, silence, Augmentation(**{**vars(STILL), "microphones": 1.0}), np.random.default_rng(0))
    assert 0.3 < (coloured[:, 25] - 3).std() < 1.2
