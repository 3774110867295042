"""Augmentation: clips move by at most what was asked, and noise comes as loud and as often as asked."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_client.errors import RecordingError
from edge_client.features import augmentation


def ramp(clips, samples):
    """Clips in which every sample tells where it was."""
    return np.tile(np.arange(1, samples + 1, dtype=np.float32) / samples, (clips, 1))


@given(clips=st.integers(0, 5), samples=st.integers(2, 60), largest=st.integers(0, 30), seed=st.integers(0, 99))
@settings(max_examples=100)
def test_a_shifted_clip_is_the_clip_moved_with_silence_moving_in(clips, samples, largest, seed):
    largest = min(largest, samples - 1)
    original = ramp(clips, samples)
    shifted = augmentation.time_shift(original, largest, np.random.default_rng(seed))
    assert shifted.shape == original.shape
    for before, after in zip(original, shifted, strict=True):
        moves = [
            by
            for by in range(-largest, largest + 1)
            if np.array_equal(after, np.pad(before, samples)[samples - by : 2 * samples - by])
        ]
        assert len(moves) == 1


def test_a_hundred_milliseconds_is_the_furthest_that_a_clip_is_moved():
    shifted = augmentation.augment(ramp(500, 16_000), 16_000, np.random.default_rng(0))
    moved = 8_001 - np.round(shifted[:, 8_000] * 16_000)
    assert abs(moved).max() <= 1_600
    assert abs(moved).max() > 1_500


def test_noise_is_as_loud_and_as_frequent_as_asked():
    rng = np.random.default_rng(0)
    noise = augmentation.BackgroundNoise((np.full(50_000, 0.5, np.float32),))
    mixed = augmentation.mix_noise(np.zeros((2_000, 10), np.float32), noise, rng, volume=0.1, probability=0.8)
    assert set(np.unique(mixed)) == {np.float32(0.0), np.float32(0.05)}
    assert (mixed[:, 0] > 0).mean() == pytest.approx(0.8, abs=0.03)


def test_clips_given_are_left_alone_and_equal_seeds_give_equal_clips():
    clips = np.random.default_rng(0).uniform(-0.5, 0.5, (20, 16_000)).astype(np.float32)
    before = clips.copy()
    noise = augmentation.BackgroundNoise((np.random.default_rng(1).uniform(-1, 1, 40_000).astype(np.float32),))
    first = augmentation.augment(clips, 16_000, np.random.default_rng(2), noise)
    second = augmentation.augment(clips, 16_000, np.random.default_rng(2), noise)
    assert first.dtype == np.float32
    np.testing.assert_array_equal(clips, before)
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, augmentation.augment(clips, 16_000, np.random.default_rng(3), noise))


def test_backgrounds_are_read_from_a_folder_and_a_damaged_one_is_left_out(tmp_path, caplog):
    soundfile = pytest.importorskip("soundfile")
    soundfile.write(tmp_path / "rain.wav", np.full(48_000, 0.25), 48_000)
    (tmp_path / "broken.flac").write_bytes(b"no sound")
    (tmp_path / "readme.txt").write_text("about")
    noise = augmentation.BackgroundNoise.load(tmp_path, 16_000)
    assert [len(recording) for recording in noise.recordings] == [16_000]
    assert np.median(noise.recordings[0]) == pytest.approx(0.25, abs=1e-3)
    assert "broken.flac" in caplog.text
    (tmp_path / "empty").mkdir()
    with pytest.raises(RecordingError, match=r"no background recordings in .*put .wav, .+ or .caf files there"):
        augmentation.BackgroundNoise.load(tmp_path / "empty", 16_000)


def test_listening_hears_clips_elsewhere_nearer_or_farther_and_in_noise():
    rng = np.random.default_rng(0)
    clips = np.zeros((200, 1600), np.float32)
    clips[:, 700:900] = 0.1 * rng.standard_normal((200, 200))
    noise = augmentation.BackgroundNoise((rng.standard_normal(5000).astype(np.float32),))
    alone = augmentation.augment_for_listening(clips, 1600, np.random.default_rng(1))
    starts = (alone != 0).argmax(axis=1)
    assert 300 <= starts.min() < 350
    assert 1050 < starts.max() <= 1100
    gains_db = 20 * np.log10(np.abs(alone).max(axis=1) / np.abs(clips).max(axis=1))
    assert -10 <= gains_db.min() < -9
    assert 5 < gains_db.max() <= 6.01
    quiet = augmentation.augment_for_listening(0.01 * clips, 1600, np.random.default_rng(1))
    levels_db = 10 * np.log10(np.square(quiet).mean(axis=1))
    assert (levels_db.min() > -46.2, -31 < levels_db.max() < -29.9) == (True, True)  # as loud as others
    heard = augmentation.augment_for_listening(clips, 1600, np.random.default_rng(1), noise)
    assert (heard != 0).mean() > 0.99
    assert np.abs(heard).max() <= 1
    assert heard.dtype == np.float32


def test_spliced_clips_are_made_of_clips_of_two_labels_or_more():
    clips = np.repeat(np.arange(1, 13, dtype=np.float32), 400).reshape(12, 400)
    labels = np.arange(12) // 4
    spliced = augmentation.splice(clips, labels, np.random.default_rng(0))
    assert spliced.shape == clips.shape
    for row in spliced:
        quarters = row.reshape(4, 100)
        assert (quarters == quarters[:, :1]).all()
        assert len({int(value - 1) // 4 for value in quarters[:, 0]}) >= 2


def test_parts_of_a_long_sound_are_its_halves_alone_twice_and_in_the_other_order_and_a_short_one_has_none():
    clip = np.zeros(16_000, np.float32)
    clip[2_000:8_000], clip[8_000:14_000] = 0.5, -0.25
    parts = augmentation.parts_of(clip, 16_000)
    middles = parts[:, [5_000, 11_000]].tolist()
    assert middles == [[0.5, 0], [0, 0.5], [-0.25, 0], [0, -0.25], [0.5, 0.5], [-0.25, -0.25], [-0.25, 0.5]]
    assert not parts[:, :1_900].any()
    assert not parts[:, 14_100:].any()
    for silent in (
        np.where(np.arange(16_000) < 2_000 + 16_000 * augmentation.LONG_S - 400, clip, 0),
        np.zeros_like(clip),
    ):
        assert augmentation.parts_of(silent, 16_000).shape == (0, 16_000)


def test_a_faster_or_slower_clip_has_another_pitch_about_its_middle_and_a_tilted_one_other_balances():
    rng, times = np.random.default_rng(3), np.arange(16_000) / 16_000
    tones = np.tile(0.2 * np.sin(2 * np.pi * 500 * times) + 0.2 * np.sin(2 * np.pi * 2000 * times), (20, 1))
    tones = (tones * (np.abs(times - 0.5) < 0.25)).astype(np.float32)

    quick = augmentation.change_speed(tones, rng)
    low = 300 + np.abs(np.fft.rfft(quick))[:, 300:900].argmax(axis=1)
    assert low.min() >= 0.69 * 500
    assert low.max() <= 1.41 * 500
    assert np.ptp(low) > 150
    middle = (times * quick**2).sum(axis=1) / (quick**2).sum(axis=1)
    assert np.abs(middle - 0.5).max() < 0.01

    tilted = augmentation.tilt(tones, 16_000, rng)
    spectra = np.abs(np.fft.rfft(tilted))
    balance = 20 * np.log10(spectra[:, 500] / spectra[:, 2000])
    assert np.abs(balance).max() <= 12.1  # 6 dB for each of two octaves
    assert np.ptp(balance) > 8
    assert np.allclose(np.square(tilted).mean(axis=1), np.square(tones).mean(axis=1), rtol=1e-3)

    again = [augmentation.augment_takes(tones, 16_000, np.random.default_rng(1)) for _ in range(2)]
    assert np.array_equal(*again)
    assert np.abs(again[0]).max() <= 1.0


def test_a_clip_in_a_room_keeps_its_direct_sound_and_falls_off_behind_it():
    clips = np.zeros((20, 16_000), np.float32)
    clips[:, 1_000] = 1.0
    heard = augmentation.reverberate(clips, 16_000, np.random.default_rng(0))
    assert np.array_equal(heard, augmentation.reverberate(clips, 16_000, np.random.default_rng(0)))
    assert not np.allclose(heard[0], heard[1])
    assert np.abs(heard[:, :1_000]).max() < 1e-6  # nothing comes before the sound itself
    assert (heard[:, 1_000] > 0.8).all()
    direct_db = -10 * np.log10(np.square(heard[:, 1_001:]).sum(axis=1))
    assert direct_db.min() > -1
    assert direct_db.max() < 13
    early, late = (np.square(heard[:, 1_001 + at : 1_001 + at + 400]).sum(axis=1) for at in (0, 1_600))
    assert (late < 0.1 * early).all()  # a tenth of a second later, with the longest decay
