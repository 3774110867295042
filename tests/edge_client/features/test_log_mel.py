"""Log-mel features: by hand, on the pictures of Speech Commands, and input that cannot be used."""

import dataclasses
import io
import zipfile
from pathlib import PurePosixPath

import numpy as np
import pytest

from edge_client.audio.recordings import read_recording
from edge_client.errors import FeatureError
from edge_client.features.front_end import open_front_end
from edge_client.features.log_mel import LogMel, mel_filters
from fleet_protocol.bundle.feature_settings import KALDI_32K, PRESETS, FeatureSettings, LogMelSettings
from fleet_protocol.errors import ProtocolError
from tests.support.checkout import DATA

SETTINGS = PRESETS["log_mel"]
ARCHIVE = DATA / "gsc_v2_logmel_jpg.zip"


def test_the_bands_of_a_tone_by_hand():
    """A tone whose period divides the window has half its amplitude squared in one bin, and a quarter beside it."""
    settings = dataclasses.replace(SETTINGS, window_s=0.032, fft_size=512)
    tone = np.sin(2 * np.pi * 1000.0 * np.arange(16_000) / 16_000)
    frame = LogMel(settings)(tone)[3]
    spectrum = np.zeros(257)
    spectrum[32] = (512 / 4) ** 2  # Hann's own sum is 256; a sine has half of it on either side
    spectrum[[31, 33]] = (512 / 8) ** 2
    np.testing.assert_allclose(frame, np.log(spectrum @ mel_filters(settings) + settings.floor), rtol=1e-4, atol=1e-4)


def test_filters_are_triangles_whose_peak_is_one_and_which_overlap_by_half():
    filters = mel_filters(dataclasses.replace(SETTINGS, fft_size=1 << 16))
    assert filters.max(axis=0) == pytest.approx(np.ones(40), abs=5e-3)
    inner = (filters > 0).any(axis=1)
    first, last = np.flatnonzero(filters[:, 0])[-1], np.flatnonzero(filters[:, -1])[0]
    np.testing.assert_allclose(filters[first // 2 + 1 : last].sum(axis=1), 1.0, atol=1e-9)
    assert inner.sum() == pytest.approx((1 << 16) * 4_000 / 16_000, rel=0.01)


@pytest.mark.skipif(not ARCHIVE.is_file(), reason=f"there is no {ARCHIVE}")
def test_they_are_the_numbers_of_the_pictures_of_speech_commands():
    Image = pytest.importorskip("PIL.Image")
    front_end, found = open_front_end(SETTINGS), []
    with zipfile.ZipFile(ARCHIVE) as archive:
        pictures = {
            PurePosixPath(name).name.split(".")[0] + PurePosixPath(name).parent.name: name
            for name in archive.namelist()
        }
        for path in sorted((DATA / "gsc_v2_test" / "yes").glob("*.flac"))[:60]:
            if name := pictures.get(path.stem + "yes"):
                pixels = np.array(Image.open(io.BytesIO(archive.read(name)))).astype(float)
                ours = front_end(read_recording(path, 16_000))
                found.append(np.corrcoef(((pixels - 147.7) / 9.92).ravel(), ours.ravel())[0, 1])
    assert len(found) > 20
    assert np.median(found) > 0.98


def test_silence_is_finite_and_short_clips_are_padded():
    front_end = LogMel(SETTINGS)
    np.testing.assert_allclose(front_end(np.zeros(100, np.float32)), np.log(SETTINGS.floor))
    clip = np.random.default_rng(0).standard_normal(8_000).astype(np.float32)
    np.testing.assert_array_equal(front_end(clip), front_end(np.pad(clip, (0, 8_000))))
    np.testing.assert_array_equal(front_end(np.stack([clip, 2 * clip]))[1], front_end(2 * clip))
    np.testing.assert_array_equal(front_end(clip), front_end(clip))  # nothing is left of the clip before


def test_settings_travel_with_their_kind_and_an_unknown_kind_is_refused():
    document = SETTINGS.to_json()
    assert FeatureSettings.from_json(document) == SETTINGS
    assert SETTINGS.digest != FeatureSettings.from_json(document | {"floor": 1e-3}).digest
    assert "kind" not in PRESETS["gudur"].to_json()  # as before there were kinds
    with pytest.raises(ProtocolError, match=r"'wavelets'.*mfcc, log_mel"):
        FeatureSettings.from_json(document | {"kind": "wavelets"})
    with pytest.raises(ProtocolError, match="lifter"):
        FeatureSettings.from_json(document | {"lifter": 22})


def test_a_missing_setting_is_named_as_it_is_written():
    document = SETTINGS.to_json()
    del document["preset"]
    with pytest.raises(ProtocolError, match="feature setting 'preset' is missing; take all settings from the bundle"):
        FeatureSettings.from_json(document)
    with pytest.raises(ProtocolError, match="feature setting 'sample_rate_hz' must be above 0, not 0"):
        FeatureSettings.from_json(SETTINGS.to_json() | {"sample_rate_hz": 0})
    with pytest.raises(ProtocolError, match=r"the feature settings must be an object, not \['log_mel'\]"):
        FeatureSettings.from_json(["log_mel"])


SOUNDS = LogMelSettings(
    "sounds", 16_000, 1.0, 0.025, 0.01, 98, 128, 512, low_hz=0.0, high_hz=15_000.0, floor=1e-5, filters=KALDI_32K
)


def at_32_khz(samples):
    """The features that EfficientAT learned from: of sound at 32 kHz, with pre-emphasis before the window."""
    spectrum = np.fft.rfft(samples)
    x = 2 * np.fft.irfft(np.pad(spectrum, (0, len(samples) // 2)), 2 * len(samples))
    x = x[1:] - 0.97 * x[:-1]
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(800) / 799)
    frames = np.stack([x[start : start + 800] * hann for start in range(0, 98 * 320, 320)])
    power = np.abs(np.fft.rfft(frames, 1024))[:, :512] ** 2
    mels = 1127 * np.log(1 + np.arange(512) * 31.25 / 700)
    step = 1127 * np.log(1 + 15_000 / 700) / 129
    rising = (mels[:, None] - step * np.arange(128)) / step
    return np.log(power @ np.maximum(0, np.minimum(rising, 2 - rising)) + 1e-5)


def test_features_of_sound_at_32_khz_are_computed_at_16_khz():
    rng = np.random.default_rng(0)
    hz = np.fft.rfftfreq(16_000, 1 / 16_000)
    for slope, db in ((0.0, -10), (0.5, -30), (1.0, -20), (0.0, -60)):
        spectrum = rng.standard_normal((2, 8_001)).T @ [1, 1j] * np.maximum(hz, 20.0) ** -slope * (hz < 7_900)
        noise = np.fft.irfft(spectrum)
        noise *= 10 ** (db / 20) / np.sqrt(np.mean(noise**2)) * np.sin(np.pi * np.arange(16_000) / 16_000)
        found, right = LogMel(SOUNDS)(noise), at_32_khz(noise)
        heard = mel_filters(SOUNDS)[: 240 + 1].any(axis=0)  # up to 7.5 kHz
        assert heard.sum() > 90
        difference = (found - right)[:, heard]  # pre-emphasis before or after the window: some in the lowest bands
        assert np.median(np.abs(difference)) < 0.01
        assert np.abs(difference).mean() < 0.05
        assert np.abs(difference.mean(axis=0)).max() < 0.2
        empty = ~mel_filters(SOUNDS).any(axis=0)
        assert empty[-20:].all()
        np.testing.assert_allclose(found[:, empty], np.log(1e-5), rtol=1e-5)


def test_filters_above_half_the_rate_are_for_kaldi_32k_alone_and_an_unknown_name_is_refused():
    for settings in (dataclasses.replace(SOUNDS, filters="htk"), dataclasses.replace(SOUNDS, filters="bark")):
        with pytest.raises(FeatureError, match=r"8000|htk or kaldi_32k"):
            LogMel(settings)
    assert FeatureSettings.from_json(SOUNDS.to_json()) == SOUNDS
    assert dataclasses.replace(SOUNDS, filters="htk").digest != SOUNDS.digest
    assert "filters" not in SETTINGS.to_json()
