"""Resampling: what can be heard in both rates stays, what cannot is removed, and nothing moves in time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_client.audio.resampling import StreamResampler, resample, resample_blocks
from edge_client.errors import RecordingError

PAIRS = [(16_000, 14_400), (44_100, 16_000), (48_000, 14_400), (22_050, 16_000), (11_025, 14_400)]


def sine(frequency_hz, rate_hz, seconds=0.5):
    return np.sin(2 * np.pi * frequency_hz * np.arange(round(rate_hz * seconds)) / rate_hz).astype(np.float32)


def middle(samples):
    return samples[len(samples) // 4 : -len(samples) // 4]


@pytest.mark.parametrize(("from_hz", "to_hz"), PAIRS)
@pytest.mark.parametrize("share", [0.01, 0.2, 0.5, 0.8, 0.88])
def test_the_pass_band_is_kept_in_level_and_time(from_hz, to_hz, share):
    frequency_hz = share * min(from_hz, to_hz) / 2
    resampled = resample(sine(frequency_hz, from_hz), from_hz, to_hz)
    assert resampled.dtype == np.float32
    np.testing.assert_allclose(middle(resampled), middle(sine(frequency_hz, to_hz)), atol=3e-4)


@pytest.mark.parametrize(("from_hz", "to_hz"), [pair for pair in PAIRS if pair[0] > pair[1]])
@pytest.mark.parametrize("share", [1.001, 1.05, 1.1])
def test_what_the_lower_rate_cannot_hold_is_damped_by_80_db(from_hz, to_hz, share):
    resampled = resample(sine(share * to_hz / 2, from_hz), from_hz, to_hz)
    level_db = 20 * np.log10(np.sqrt(2 * np.mean(middle(resampled).astype(float) ** 2)))
    assert level_db < -79


@pytest.mark.parametrize("from_hz", [15_999, 44_056, 191_999])
def test_an_odd_rate_keeps_its_pitch_within_a_cent(from_hz):
    resampled = resample(sine(1_000, from_hz, 2.0), from_hz, 16_000)
    assert len(resampled) == pytest.approx(32_000, abs=16)
    spectrum = np.abs(np.fft.rfft(resampled * np.hanning(len(resampled)), 1 << 18))
    assert spectrum.argmax() * 16_000 / (1 << 18) == pytest.approx(1_000, rel=1 / 1_731)


@pytest.mark.parametrize(("from_hz", "to_hz"), [(0, 16_000), (16_000, -1), (10**9, 16_000)])
def test_a_rate_out_of_range_is_refused(from_hz, to_hz):
    with pytest.raises(RecordingError, match="Hz is outside 1000 to 768000 Hz"):
        resample(np.zeros(10, np.float32), from_hz, to_hz)
    with pytest.raises(RecordingError, match="Hz is outside 1000 to 768000 Hz"):
        StreamResampler(from_hz, to_hz)


def in_blocks(samples, from_hz, to_hz, rng, longest=3_000):
    stream, parts = StreamResampler(from_hz, to_hz), []
    while len(samples):
        size = int(rng.integers(0, longest))
        parts.append(stream.push(samples[:size]))
        samples = samples[size:]
    return np.concatenate(parts)


@given(
    pair=st.sampled_from([*PAIRS, (16_000, 16_000), (96_000, 16_000), (44_056, 16_000), (16_000, 44_100)]),
    longest=st.sampled_from([2, 100, 3_000, 20_000]),
    seed=st.integers(0, 1_000),
)
@settings(max_examples=60)
def test_a_stream_of_blocks_is_resampled_like_the_whole(pair, longest, seed):
    rng = np.random.default_rng(seed)
    samples = rng.standard_normal(10_000 if longest > 2 else 2_000).astype(np.float32)
    streamed = in_blocks(samples, *pair, rng, longest)
    assert streamed.dtype == np.float32
    whole = resample(samples, *pair)
    np.testing.assert_allclose(streamed, whole[: len(streamed)], atol=2e-5)
    held_back_s = (len(whole) - len(streamed)) / pair[1]
    assert 0 <= held_back_s < 0.06


def test_a_long_recording_is_resampled_in_parts_as_32_bits_need_it(monkeypatch):
    samples = np.random.default_rng(0).normal(size=20_000).astype(np.float32)
    whole = resample(samples, 44_100, 16_000)
    monkeypatch.setattr("edge_client.audio.resampling._VIEW", 2_000)  # a few outputs at a time
    assert np.array_equal(resample(samples, 44_100, 16_000), whole)


@pytest.mark.parametrize(("from_hz", "to_hz"), [(44_100, 16_000), (48_000, 16_000), (8_000, 16_000), (96_000, 16_000)])
@pytest.mark.parametrize("size", [1, 700, 10_000, 100_000])
def test_a_recording_in_blocks_becomes_what_the_whole_becomes(from_hz, to_hz, size):
    samples = np.random.default_rng(0).normal(size=3_001 if size == 1 else 50_001).astype(np.float32)
    blocks = (samples[start : start + size] for start in range(0, len(samples), size))
    found = np.concatenate(list(resample_blocks(blocks, from_hz, to_hz)))
    np.testing.assert_allclose(found, resample(samples, from_hz, to_hz), atol=1e-6)
