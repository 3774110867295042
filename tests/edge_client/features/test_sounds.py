"""The front end for everyday sounds that ships: its windows, its network, and a device that is taught with it."""

import numpy as np
import pytest

from edge_client.audio.recordings import encode_wave
from edge_client.config.sections import DetectorConfig
from edge_client.daemon.listening_loop import load_listening
from edge_client.detection.detector import Detector
from edge_client.detection.pace import pace_of
from edge_client.features.front_end import open_front_end, open_sliding
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.ground.sample_sounds import takes
from tests.support.taught_device import Device

NAMES = ("sounds", "sounds_2s")


@pytest.mark.parametrize("name", [*NAMES, "words_and_sounds"])
def test_a_sliding_window_has_the_embedding_that_it_has_alone(name):
    settings = read_bundle(find_bundle(name)).manifest.feature_settings
    frames = pace_of(DetectorConfig(), settings).hop_frames
    sliding, alone = open_sliding(settings, frames), open_front_end(settings)
    stream = takes("siren", 1, 5 * settings.sample_rate_hz, np.random.default_rng(0))[0]
    of_words = 312 if name == "words_and_sounds" else 0  # there sounds are heard in every fourth window
    said = open_front_end(settings.words if of_words else settings)  # and words at a window's end
    held = np.zeros((1, 0), np.float32)
    for start in range(0, len(stream) - settings.clip_samples + 1, frames * settings.hop_samples):
        window = stream[start : start + settings.clip_samples]
        found, wanted = sliding(window), alone(window)
        if of_words:
            wanted[:, :of_words] = said(window[-said.settings.clip_samples :])
            if start // (frames * settings.hop_samples) % 4:
                wanted[:, of_words:] = held
        held = wanted[:, of_words:]
        np.testing.assert_allclose(found, wanted, atol=5e-3)
        assert np.abs(found).max() > 0.5
    sliding.reset()
    np.testing.assert_allclose(sliding(window)[:, of_words:], alone(window)[:, of_words:], atol=5e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_device_hears_what_it_was_taught_and_nothing_else(tmp_path, name):
    device, rng = Device(tmp_path, find_bundle(name)), np.random.default_rng(3)
    later = {}
    for kind in ("doorbell", "bark"):
        (device.clips / kind).mkdir(parents=True)
        *taught, later[kind] = takes(kind, 6, 32_000, rng)
        for number, take in enumerate(taught):
            (device.clips / kind / f"{number}.wav").write_bytes(encode_wave(take, 16_000))
    device.teach()
    loaded = load_listening(device.config)
    assert loaded.lasting == {"doorbell", "bark"}
    detector = Detector(loaded, device.config.detector)
    stream = rng.normal(scale=1e-3, size=16_000 * 60).astype(np.float32)
    heard_at = {"doorbell": 10, "music": 20, "bark": 30, "engine": 40, "rain": 50}
    for kind, at_s in heard_at.items():
        sound = later[kind] if kind in later else takes(kind, 1, 32_000, rng)[0]
        stream[16_000 * at_s : 16_000 * at_s + 32_000] += sound
    events = [heard.event.label for part in np.split(stream, 60) for heard in detector.push(part)]
    assert [label for label in events if label != "unknown"] == ["doorbell", "bark"]
    assert [event.label for event in detector.take_followed() if event.ended is not None] == ["doorbell", "bark"]
