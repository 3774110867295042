"""Features: equal to python_speech_features, whatever is asked of them, and clear about what they cannot take."""

import dataclasses
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_client.errors import FeatureError
from edge_client.features.mfcc import Mfcc
from fleet_protocol.bundle.feature_settings import CEPSTRA

# First, middle and last frame, coefficients 0, 1, 2 and the last two, as python_speech_features 0.6 gave them.
GOLDEN = {
    "gudur": [
        [-0.3861, 2.1155, 18.9464, 12.4047, 12.8409],
        [0.4456, -16.678, -25.2249, -14.1599, 17.5959],
        [-0.3592, -29.2938, -10.5847, -26.6454, 16.9312],
    ],
    "hello_edge": [
        [-0.7399, 13.119, 16.4105, 7.8895, 20.2566],
        [0.1558, -18.2996, -28.8831, -27.9126, -8.5835],
        [-0.6561, -32.604, 8.1454, -13.8736, -9.361],
    ],
    "kws40": [
        [-1.0637, 0.8634, 25.049, -2.424, -3.3665],
        [-0.1432, -17.9937, -25.3556, 4.5051, 3.772],
        [-0.9484, -33.5129, -13.5834, 3.8962, -1.1567],
    ],
}


def reference(samples, features):
    python_speech_features = pytest.importorskip("python_speech_features")
    names = (
        "sample_rate_hz window_s hop_s coefficients mel_bands fft_size low_hz high_hz pre_emphasis lifter log_energy"
    )
    return python_speech_features.mfcc(samples, *(getattr(features, name) for name in names.split(" ")))


def noise(features, seed=0, clips=None, volume=0.1):
    size = features.clip_samples if clips is None else (clips, features.clip_samples)
    return (volume * np.random.default_rng(seed).standard_normal(size)).astype(np.float32)


def chirp(features):
    """A falling sweep over a little hiss, by formula, so that no random generator's stream is part of the vectors."""
    t = np.arange(features.clip_samples) / features.sample_rate_hz
    sweep = 0.4 * np.sin(2 * np.pi * (300 * t + 1200 * t * t)) * np.exp(-2 * t)
    return (sweep + 0.01 * np.sin(7919 * np.arange(len(t), dtype=np.int64) ** 2 % 6.283)).astype(np.float32)


@pytest.fixture(params=sorted(CEPSTRA))
def features(request):
    return CEPSTRA[request.param]


def test_golden_vectors(features):
    computed = Mfcc(features)(chirp(features))
    assert (computed.dtype, computed.shape) == (np.float32, features.shape)
    chosen = computed[[0, features.frames // 2, -1]][:, [0, 1, 2, -2, -1]]
    np.testing.assert_allclose(chosen, GOLDEN[features.preset], atol=1e-4)


def hard_clips(features):
    """Clips with bands, frames or samples far below others, into which rounding errors of the loud ones could leak."""
    loud = noise(features, seed=2, volume=0.3)
    t = np.arange(features.clip_samples) / features.sample_rate_hz
    spectrum = np.fft.rfft(loud)
    low_passed = np.fft.irfft(np.where(np.arange(len(spectrum)) < 300, spectrum, 0), len(loud))
    clips = {
        "low-passed noise": low_passed,
        "low-passed noise that fades in and out": low_passed * np.sin(np.pi * t) ** 4,
        "a high tone": 0.9 * np.sin(2 * np.pi * 6_000 * t),
        "a tone at a bin of the FFT": 0.9 * np.sin(2 * np.pi * 32 * features.sample_rate_hz / features.fft_size * t),
        "noise, then digital silence": np.where(t < 0.45, loud, 0),
        "noise, then very quiet noise": np.where(t < 0.45, loud, 1e-8 * loud),
        "an offset": 0.5 + 1e-4 * loud,
        "an offset alone": np.full(len(t), 0.5),
        "full scale": np.sign(loud),
        "silence": np.zeros(len(t)),
    }
    return {name: clip.astype(np.float32) for name, clip in clips.items()}


@pytest.mark.slow
def test_quiet_parts_beside_loud_ones_equal_the_reference(features):
    mfcc = Mfcc(features)
    for name, clip in hard_clips(features).items():
        np.testing.assert_allclose(mfcc(clip), reference(clip, features), atol=1e-4, err_msg=name)
    exact = 0.1 * np.random.default_rng(1).standard_normal(features.clip_samples)  # in double precision
    np.testing.assert_allclose(mfcc(exact), reference(exact, features), atol=1e-4)


@given(
    rate=st.sampled_from([8_000, 11_025, 16_000]),
    window_s=st.floats(0.01, 0.06),
    hop_share=st.floats(0.2, 1.3),
    bands=st.integers(3, 50),
    lifter=st.sampled_from([0, 22]),
    log_energy=st.booleans(),
    fft_size=st.sampled_from([1024, 1023]),
    seed=st.integers(0, 99),
)
@settings(max_examples=40)
@pytest.mark.slow
def test_any_consistent_settings_equal_the_reference(
    rate, window_s, hop_share, bands, lifter, log_energy, fft_size, seed
):
    window = round(window_s * rate)
    hop = max(1, round(window * hop_share))
    features = dataclasses.replace(
        CEPSTRA["gudur"],
        sample_rate_hz=rate,
        clip_s=0.5,
        window_s=window / rate,
        hop_s=hop / rate,
        frames=1 + -(-(round(0.5 * rate) - window) // hop),
        coefficients=min(13, bands),
        mel_bands=bands,
        fft_size=fft_size,
        low_hz=50.0,
        high_hz=rate / 2,
        lifter=lifter,
        log_energy=log_energy,
    )
    clip = noise(features, seed)
    np.testing.assert_allclose(Mfcc(features)(clip), reference(clip, features), atol=1e-3)


@pytest.mark.slow
def test_longer_clips_are_cropped_and_shorter_ones_padded(features):
    clip = noise(features)
    mfcc = Mfcc(features)
    np.testing.assert_array_equal(mfcc(np.concatenate([clip, clip])), mfcc(clip))
    for length in (1, 2, 777, features.clip_samples - 1):
        short = clip[:length]
        padded = np.pad(short, (0, features.clip_samples - length))
        np.testing.assert_array_equal(mfcc(short), mfcc(padded))
        np.testing.assert_allclose(mfcc(short), reference(padded, features), atol=1e-4)


def test_threads_may_share_one(features):
    mfcc = Mfcc(features)
    batches = [noise(features, seed, clips=20) for seed in range(4)]
    expected = [mfcc(batch) for batch in batches]
    results = {}

    def work(number):
        results[number] = [mfcc(batches[number]) for _ in range(5)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, computed in results.items():
        for array in computed:
            np.testing.assert_array_equal(array, expected[number])


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        (np.zeros(16_000, np.int16), ["int16", "astype(numpy.float32) / 32768"]),
        (np.zeros(16_000, np.uint8), ["uint8", "- 128", "/ 128"]),
        (np.zeros(16_000, bool), ["bool", "float32"]),
        (np.zeros((1, 2, 16_000), np.float32), ["(1, 2, 16000)", "[clips, samples]"]),
        (np.float32(0.0), ["()", "[samples]"]),
        (np.zeros(0, np.float32), ["(0,)", "not empty"]),
        (np.zeros((3, 0), np.float32), ["(3, 0)", "not empty"]),
        (np.array([0.0, np.nan], np.float32), ["(1,)", "nan"]),
        (np.array([[0.0, 0.0], [0.0, -np.inf]], np.float32), ["(1, 1)", "-inf"]),
    ],
)
def test_what_is_no_clip_is_refused_with_the_way_out(samples, words):
    with pytest.raises(FeatureError) as error:
        Mfcc(CEPSTRA["gudur"])(samples)
    assert all(word in str(error.value) for word in words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"fft_size": 512}, ["720 samples", "fft_size=512"]),
        ({"high_hz": 8_000.0}, ["7200", "high_hz=8000.0"]),
        ({"low_hz": 7_300.0}, ["low_hz=7300.0"]),
        ({"coefficients": 27}, ["mel_bands=26"]),
        ({"frames": 0}, ["frames=0"]),
        ({"hop_s": 0.0}, ["hop_s=0.0"]),
    ],
)
def test_settings_that_contradict_themselves_are_refused(change, words):
    with pytest.raises(FeatureError) as error:
        Mfcc(dataclasses.replace(CEPSTRA["gudur"], **change))
    assert all(word in str(error.value) for word in words)
