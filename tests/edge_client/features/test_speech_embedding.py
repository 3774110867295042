"""The speech embedding: its mel features and its network against the package's, clips against streams."""

import dataclasses
import importlib

import numpy as np
import pytest

from edge_client.errors import FeatureError, ModelError
from edge_client.features.front_end import open_front_end, open_sliding
from edge_client.features.speech_embedding import delay_s, span, speech_mel
from edge_client.model.interpreter import StreamingNetwork
from fleet_protocol.bundle import read_bundle
from fleet_protocol.feature_settings import FrozenNetwork
from tests.support.checkout import require_runtime
from tests.support.speech_package import models

MODULES = {
    "c": "edge_client.model.c_library",
    "tflite": "tflite_runtime.interpreter",
    "litert": "ai_edge_litert.interpreter",
}
PARTS = 22


@pytest.fixture
def settings(speech_bundles):
    return read_bundle(speech_bundles / "linear.auricle").manifest.feature_settings


def sound(samples, seed=0):
    """Noise that swells and fades, with digital silence in it, as 16-bit samples have it."""
    rng = np.random.default_rng(seed)
    loudness = 10 ** rng.uniform(-4, -0.5, samples // 800 + 1).repeat(800)[:samples]
    loudness[samples // 2 : samples // 2 + 3_000] = 0.0
    return np.round(32_767 * np.clip(loudness * rng.standard_normal(samples), -1, 1)) / 32_768


def interpreter(name, runtime="litert"):
    require_runtime(runtime)
    return importlib.import_module(MODULES[runtime]).Interpreter(model_content=(models() / name).read_bytes())


@pytest.mark.slow
def test_the_mel_features_are_those_of_the_package():
    reference = interpreter("melspectrogram.tflite")
    heard = sound(span(PARTS) + 240)
    ours = speech_mel(heard[56 : 56 + span(PARTS)])  # the package's 400 samples lie in the middle of 512
    reference.resize_tensor_input(0, (1, 1_760))
    reference.allocate_tensors()
    for number, part in enumerate(ours):
        reference.set_tensor(0, (32_768 * heard[None, 1_280 * number :][:, :1_760]).astype(np.float32))
        reference.invoke()
        theirs = reference.get_tensor(reference.get_output_details()[0]["index"])[0, 0]
        np.testing.assert_allclose(10 * (part - 2), theirs, atol=1e-3)
    assert np.ptp(ours) > 8  # down to 80 dB below the loudest, and digital silence


@pytest.mark.alone
@pytest.mark.parametrize("runtime", ["c", "tflite", "litert"])
def test_part_by_part_it_is_the_windowed_network_of_the_package(settings, monkeypatch, runtime):
    windowed = interpreter("embedding_model.tflite", runtime)
    windowed.allocate_tensors()
    monkeypatch.setenv("AURICLE_RUNTIME", runtime)
    stream = StreamingNetwork(settings.network.data)
    parts = speech_mel(sound(span(PARTS), seed=1))
    state, columns = stream.start, []
    for some in np.split(parts, [1, 2, 5, 12]):  # any number of parts at once
        found, state = stream.step(some, state)
        columns.extend(found)
    assert len(columns) == PARTS
    for number, column in enumerate(columns[9:]):
        frames = parts.reshape(-1, 32)[8 * number + 4 : 8 * number + 80]
        windowed.set_tensor(0, np.ascontiguousarray(frames[None, :, :, None]))
        windowed.invoke()
        theirs = windowed.get_tensor(windowed.get_output_details()[0]["index"]).reshape(-1)
        np.testing.assert_allclose(column, theirs, atol=1e-4)
    assert np.ptp(columns[9:], axis=0).max() > 1


def test_a_clip_has_the_features_that_it_has_in_a_stream_between_silence(settings):
    clips = sound(3 * settings.clip_samples).reshape(3, -1).astype(np.float32)
    alone = open_front_end(settings)
    found = alone(clips)
    assert found.shape == (3, *settings.shape) == (3, 1, 96)
    np.testing.assert_array_equal(alone(clips[1]), found[1])
    lag = round(delay_s(settings) * settings.sample_rate_hz)
    for hop, (clip, features) in zip((1, 2, 5), zip(clips, found, strict=True), strict=True):
        stream = np.concatenate([np.zeros(settings.clip_samples + 20_000, np.float32), clip, np.zeros(lag, np.float32)])
        sliding, hop_samples = open_sliding(settings, hop), hop * settings.hop_samples
        starts = range(
            (len(stream) - settings.clip_samples) % hop_samples, len(stream) - settings.clip_samples + 1, hop_samples
        )
        for start in starts:
            heard = sliding(stream[start : start + settings.clip_samples])
        np.testing.assert_allclose(heard, features, atol=1e-4)


def test_after_a_reset_silence_stands_before_the_window(settings):
    stream = sound(4 * settings.clip_samples, seed=2).astype(np.float32)
    sliding, fresh = open_sliding(settings, 3), open_sliding(settings, 3)
    window = stream[-settings.clip_samples :]
    before = sliding(stream[: settings.clip_samples])
    assert not np.allclose(sliding(window), fresh(window), atol=1e-2)
    sliding.reset()
    fresh.reset()
    np.testing.assert_allclose(sliding(window), fresh(window), atol=1e-4)
    assert before.shape == settings.shape


def test_a_network_that_does_not_fit_or_is_none_is_refused(settings, embedding_bundles):
    for change in ({"numbers": 95}, {"frames": 0}, {"hop_s": 0.01}, {"sample_rate_hz": 8_000}):
        with pytest.raises(FeatureError, match="do not fit"):
            open_front_end(dataclasses.replace(settings, **change))
    of_clips = (embedding_bundles / "front_end.tflite").read_bytes()
    for data in (of_clips, b"\x1c\0\0\0TFL3" + bytes(40)):
        with pytest.raises(ModelError, match="as one of a stream"):
            open_front_end(dataclasses.replace(settings, network=FrozenNetwork.of(data)))
