"""Batches and their variants: repeatable, finite, balanced, and each clip under its class."""

from dataclasses import replace

import numpy as np
import pytest
from jax import numpy as jnp
from jax import random

from model_export.pretraining.batches import Batches, coloured_noise
from model_export.pretraining.corpus import NOISE, SPEECH, Corpus
from model_export.pretraining.pictures import normalised, to_pixels
from model_export.pretraining.read_speech import ReadSpeech
from model_export.pretraining.variants import WORDS, Augmentation, Draws, augment

STILL = Augmentation(shift_frames=0, stretch=(1.0, 1.0), warp=(1.0, 1.0), gain_db=(0.0, 0.0), noise=0.0, masks=0.0)
# Where a product of matrices is rounded, a picture's silence differs a little.
ROUNDED = 1e-3


def varied(clips, settings, noise=None, seed=0):
    """Return variants of clips, in the noise or in silence."""
    noise = np.full_like(clips, np.log(1e-6)) if noise is None else noise
    draws = Draws(random.key(seed), len(clips))
    return np.asarray(augment(jnp.asarray(clips), jnp.asarray(noise), settings, draws)[0])


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
    x, classes = Batches(corpus, STILL, 300, 0.5, 0).at(0)
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
    x, classes = batches.at(3)
    assert all(map(np.array_equal, replace(batches).at(3), (x, classes)))
    assert not np.array_equal(classes, batches.at(4)[1])
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
    heard = varied(clips, replace(STILL, noise=1.0, snr_db=(10.0, 10.0)), noise)
    assert np.allclose(np.exp(heard), np.exp(2.0) * 1.1, rtol=1e-3)


def test_digital_silence_and_synthetic_noise_stay_finite():
    silence = np.full((8, 98, 40), np.log(1e-6), np.float32)
    assert np.isfinite(varied(silence, WORDS)).all()
    noise = coloured_noise(8, np.random.default_rng(1))
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


@pytest.fixture
def speech():
    """A quiet recording with a loud word of 30 frames, another word that the corpus has too, and a loud neighbour."""
    pixels = np.full((600, 40), 60, np.uint8)
    pixels[200:230] = 180
    pixels[232:300] = 170
    pixels[400:430] = 120
    words, marks = np.array(["a", "a", "often"]), np.array([[200, 229], [200, 229], [400, 429]])
    return ReadSpeech(pixels, words, marks)


def test_words_of_read_speech_are_drawn_and_are_no_part_of_the_head(corpus, speech):
    batches = Batches(corpus, STILL, 600, 0.5, 0, speech)
    _, classes = batches.at(0)
    assert batches.classes == 7  # often, rare, a; each backwards; noise
    assert set(classes) == set(range(7))
    assert batches.head == [0, 1, 6]
    assert batches.forward_shares.shape == (3,)
    assert set(batches.variants(2)[1]) == {"often", "rare", NOISE}
    assert np.isin(classes, (0, 3)).sum() > 10 * np.isin(classes, (2, 5)).sum()  # by n^0.5, and as the corpus' own


def test_a_window_holds_its_word_and_every_other_one_its_neighbour_more_quietly(corpus, speech):
    alone = ReadSpeech(speech.pixels, speech.words[:2], speech.marks[:2])
    batches = Batches(corpus, STILL, 2000, 0.0, 0, alone)
    x, classes = batches.at(0)
    loud, beside = (float(normalised((level - 147.7) / 9.92)) for level in (180, 170))
    windows = x[classes == 2][:, :, 0]
    begins = (np.abs(windows - loud) < ROUNDED).argmax(axis=1)
    assert (np.abs(windows - loud) < ROUNDED).sum(axis=1).tolist() == [30] * len(windows)
    assert (begins.min(), begins.max()) == (35 - 12, 35 + 12)
    after = windows[np.arange(len(windows)), begins + 40]
    as_it_is = np.abs(after - beside) < ROUNDED
    assert 0.3 < as_it_is.mean() < 0.7
    assert (after[~as_it_is] <= beside - 0.2 * 12 * np.log(10) / 10 + ROUNDED).all()


def test_phones_are_known_where_they_are_heard(corpus):
    levels, pixels = (120, 140, 160, 180), np.full((600, 40), 60, np.uint8)
    phones, pairs = np.full((2, 600), -1, np.int32)
    pixels[300:340], phones[300:340] = np.repeat(levels, 10)[:, None], np.repeat(range(4), 10)
    pairs[[310, 320, 330]] = 0, 1, 2
    speech = ReadSpeech(pixels, np.array(["a", "a"]), np.array([[300, 327], [300, 327]]), phones, pairs)
    batches = Batches(corpus, replace(STILL, shift_frames=50), 600, 0.3, 0, speech)
    x, classes, (found, said, known) = batches.draw(batches.sounds, 0)
    found, said, is_word = np.asarray(found), np.asarray(said), np.asarray(classes) == 2
    for phone, level in enumerate(levels):
        assert (found == phone).any()
        assert np.allclose(x[found == phone][:, 0], normalised((level - 147.7) / 9.92), atol=ROUNDED)
    assert (found[~is_word] == -1).all()  # played backwards, too
    assert not np.asarray(known)[~is_word].any()
    assert ((found == 0).any(1) & (found == 1).any(1))[said[:, 0]].all()
    assert said[is_word, 0].mean() > 1.5 * said[is_word, 2].mean() > 0  # every other one is quieter after the word
    assert np.asarray(known)[is_word, 0].mean() > 0.7


def test_noise_is_one_or_two_noises_or_people_who_are_quieter(corpus):
    def distance(**settings):
        """Return the power of a steady word in noise of its own power, for its power's 1."""
        x, classes = Batches(corpus, replace(STILL, noise=1.0, snr_db=(0.0, 0.0), **settings), 300, 0.0, 0).at(0)
        power = np.exp(x[classes == 1] / 0.2 - 6).mean(axis=(1, 2))
        return set(np.round(power.astype(float) / np.exp((150 - 147.7) / 9.92), 2))

    assert distance(second_noise=0.5) == {2.0}
    assert distance(talk=0.5) == {1.32, 2.0}  # 5 dB


def test_what_is_hidden_is_one_stretch_of_time_and_one_of_bands():
    clips = np.tile(np.linspace(-2, 2, 40, dtype=np.float32), (200, 98, 1))
    hidden = np.abs(varied(clips, replace(STILL, masks=0.5)) - clips) > 0.06
    frames = hidden[:, :, [0, 39]].all(axis=2).sum(axis=1)
    bands = hidden[:, [0, 97]].all(axis=1).sum(axis=1)
    assert 0.3 < (frames > 0).mean() < 0.6
    assert frames.max() <= 16
    assert 1 <= bands.max() <= 6


def test_what_is_moved_and_stretched_stays_between_the_bounds():
    clips = np.full((400, 98, 40), -8.0, np.float32)
    clips[:, 44:54] = 2.0
    heard = varied(clips, replace(STILL, shift_frames=20, stretch=(0.5, 0.5)))
    lengths = (heard[:, :, 20] > -3).sum(axis=1)
    centres = (heard[:, :, 20].argmax(axis=1) + lengths / 2).round()
    assert set(lengths) <= {19, 20, 21}
    assert 26 <= centres.min() < 32
    assert 66 < centres.max() <= 72
    assert np.array_equal(to_pixels(varied(clips, STILL)), to_pixels(clips))


def test_rooms_add_what_follows_and_microphones_colour_the_bands():
    clips = np.full((60, 98, 40), np.log(1e-6), np.float32)
    clips[:, 20:30] = 3.0
    heard = varied(clips, replace(STILL, rooms=1.0))
    assert (heard[:, :20] < -11).all()  # nothing before the sound
    assert (np.diff(heard[:, 30:50].mean(axis=2), axis=1) < 0).all()
    assert (heard[:, 30] > -6).all()
    coloured = varied(clips, replace(STILL, microphones=1.0))
    assert 0.4 < (coloured[:, 25] - 3).std() < 0.9  # nepers: 1.75 dB twice over, since four cosines add up
