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
from fleet_protocol.errors import ProtocolError
from fleet_protocol.feature_settings import PRESETS, FeatureSettings
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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"fft_size": 256}, ["hold a window of 400"]),
        ({"high_hz": 9_000.0}, ["high_hz <= 8000"]),
        ({"mel_bands": 0}, ["positive"]),
    ],
)
def test_settings_that_contradict_themselves_are_refused(change, words):
    with pytest.raises(FeatureError) as error:
        open_front_end(dataclasses.replace(SETTINGS, **change))
    assert all(word in str(error.value) for word in words)


def test_settings_travel_with_their_kind_and_an_unknown_kind_is_refused():
    document = SETTINGS.to_json()
    assert FeatureSettings.from_json(document) == SETTINGS
    assert SETTINGS.digest != FeatureSettings.from_json(document | {"floor": 1e-3}).digest
    assert "kind" not in PRESETS["gudur"].to_json()  # as before there were kinds
    with pytest.raises(ProtocolError, match=r"'wavelets'.*mfcc, log_mel"):
        FeatureSettings.from_json(document | {"kind": "wavelets"})
    with pytest.raises(ProtocolError, match="lifter"):
        FeatureSettings.from_json(document | {"lifter": 22})
