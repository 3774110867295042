"""Real recordings and pictures become the features that a device would learn from."""

import re

import numpy as np
import pytest

from edge_client.audio.recordings import read_clip, read_recording
from edge_client.features.log_mel import mel_filters
from edge_client.features.mfcc import Mfcc
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.feature_settings import preset
from fleet_simulator.data.corpora import read_corpus, with_white_noise
from fleet_simulator.data.log_mel import cepstra, pictures
from fleet_simulator.data.log_mel import with_white_noise as picture_noise
from fleet_simulator.data.recording_layouts import NOBODY
from fleet_simulator.errors import CorpusError
from fleet_simulator.experiment.sections import DataSection
from model_export.pretraining.corpus import SETTINGS
from model_export.pretraining.pictures import decode, mel_power
from tests.support.checkout import DATA

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"there is no {DATA}; set AURICLE_DATA")


@pytest.fixture(scope="module")
def model(bundles):
    return ModelRuntime.open(bundles["ann3"])


@needs_data
def test_recordings_are_heard_as_a_device_hears_them(model):
    folder = DATA / "gsc_v2_test"
    corpus = read_corpus(DataSection("speech_commands", folder, ("no", "yes")), model.manifest, 0)
    assert corpus.names == ("no", "yes")
    paths = sorted((folder / "no").glob("*")) + sorted((folder / "yes").glob("*"))
    assert len(corpus.labels) == len(paths)
    settings = model.manifest.feature_settings
    for row in (0, len(paths) - 1):
        wanted = model.normalise(Mfcc(settings)(read_clip(paths[row], settings))[None])
        np.testing.assert_allclose(corpus.features(np.array([row])), wanted, rtol=1e-5, atol=1e-5)
        assert corpus.speakers[row] == paths[row].name.split("_nohash_")[0]
    assert np.bincount(corpus.labels).tolist() == [sum(p.parent.name == name for p in paths) for name in ("no", "yes")]


@needs_data
def test_pictures_become_standardised_cepstra_of_many_speakers(model):
    corpus = read_corpus(DataSection("log_mel", DATA / "gsc_v2_logmel_jpg.zip", ("go",)), model.manifest, 0)
    x = corpus.features(np.arange(len(corpus.labels)))
    assert x.shape == (len(corpus.labels), *model.manifest.input_shape)
    np.testing.assert_allclose(x.mean(axis=(0, 1)), 0, atol=1e-3)
    np.testing.assert_allclose(x.std(axis=(0, 1)), 1, atol=1e-3)
    assert len(set(corpus.speakers)) > 500


@needs_data
def test_of_many_speakers_some_are_drawn_with_the_seed(model):
    def draw(seed):
        data = DataSection("log_mel", DATA / "gsc_v2_logmel_jpg.zip", ("go", "_background_noise_"), speakers=100)
        return read_corpus(data, model.manifest, seed)

    first, again, other = draw(1), draw(1), draw(2)
    assert len(set(first.speakers) - {NOBODY}) == 100
    assert set(first.speakers) == set(again.speakers) != set(other.speakers)
    noise = int((first.labels == 1).sum())
    assert 20 < noise < 120  # as large a share of the 790 pictures of noise as 100 are of the speakers
    with pytest.raises(CorpusError, match=r"speakers, fewer than \[data\] speakers = 5000"):
        read_corpus(DataSection("log_mel", DATA / "gsc_v2_logmel_jpg.zip", ("go",), speakers=5000), model.manifest, 0)


@needs_data
def test_a_word_of_the_unknown_ones_can_be_a_label(model):
    for source, name, label in (
        ("log_mel", "gsc_v2_logmel_jpg.zip", "unknown"),
        ("speech_commands", "gsc_v2_test", "_unknown_"),
    ):
        corpus = read_corpus(DataSection(source, DATA / name, ("bed", label), speakers=150), model.manifest, 0)
        assert 0 < (corpus.labels == 0).sum() < (corpus.labels == 1).sum() / 5
        assert all(re.fullmatch("[0-9a-f]{8}", speaker) for speaker in corpus.speakers)


@needs_data
def test_white_noise_in_recordings_is_as_far_below_them_as_asked():
    path = sorted((DATA / "gsc_v2_test" / "yes").glob("*"))[3]
    samples = read_recording(path, 16_000)
    for snr_db in (30.0, 0.0):
        noise = with_white_noise(samples, snr_db, np.random.default_rng(0)) - samples
        ratio = 10 * np.log10(np.mean(samples**2) / np.mean(noise**2))
        assert ratio == pytest.approx(snr_db, abs=0.2)


@needs_data
@pytest.mark.parametrize("snr_db", [30.0, 10.0])
def test_noise_in_pictures_is_what_noise_in_their_recordings_would_be(snr_db):
    """Compare with waveforms of which the pictures exist: noise added to these, and then a picture's filterbank."""
    rng = np.random.default_rng(0)
    archive, recordings = DATA / "gsc_v2_logmel_jpg.zip", {}
    for path in sorted((DATA / "gsc_v2_test").glob("[a-z]*/*")):
        recordings[path.parent.name, path.name.split(".")[0]] = path
    entries = [e for e in pictures(archive) if (e.label, e.path.name.split(".")[0]) in recordings][::25]
    power = mel_power(decode(archive, [entry.path for entry in entries]))
    found, wanted = [], []
    for entry, picture in zip(entries, power, strict=True):
        samples = read_recording(recordings[entry.label, entry.path.name.split(".")[0]], 16_000)
        heard = np.pad(with_white_noise(samples, snr_db, rng), (0, 16_000 - len(samples)))
        frames = np.lib.stride_tricks.sliding_window_view(heard, 400)[::160] * np.hanning(401)[:-1]
        of_recording = np.abs(np.fft.rfft(frames, 512)) ** 2 @ mel_filters(SETTINGS)
        if np.corrcoef(np.log(of_recording.ravel()), np.log(picture.ravel()))[0, 1] > 0.5:  # some are of other clips
            wanted.append(np.log(of_recording))
            found.append(np.log(picture_noise(picture, snr_db, rng)))
    assert len(found) > 80
    settings = preset("gudur")
    ours, theirs = (cepstra(np.exp(np.array(part)), settings) for part in (found, wanted))
    assert abs(np.mean(found) - np.mean(wanted)) < 0.1  # 0.4 dB
    np.testing.assert_allclose(ours.std(axis=(0, 1)), theirs.std(axis=(0, 1)), rtol=0.1)
    np.testing.assert_allclose(ours.mean(axis=(0, 1)), theirs.mean(axis=(0, 1)), atol=0.35)
    noise = np.array(wanted) < np.array(wanted).mean(axis=(1, 2), keepdims=True) - 1  # where hardly anything else is
    assert np.std(np.diff(np.array(found), axis=1)[noise[:, 1:]]) == pytest.approx(
        np.std(np.diff(np.array(wanted), axis=1)[noise[:, 1:]]), rel=0.1
    )


@needs_data
@pytest.mark.parametrize(("source", "name"), [("speech_commands", "gsc_v2_test"), ("log_mel", "gsc_v2_logmel_jpg.zip")])
def test_noise_is_in_the_clips_of_devices_or_in_all(model, source, name):
    def read(**keys):
        data = DataSection(source, DATA / name, ("go",), speakers=40, **keys)
        corpus = read_corpus(data, model.manifest, 1)
        rows = np.arange(len(corpus.labels))
        return corpus.features(rows), corpus.on_devices(rows)

    clean, plain = read()
    np.testing.assert_array_equal(clean, plain[:, 0])
    judged, trained = read(snr_db=10.0)
    np.testing.assert_allclose(judged, clean, atol=1e-6)
    assert np.abs(trained[:, 0] - clean).mean() > 0.3
    judged, everywhere = read(snr_db=10.0, noisy="all")
    np.testing.assert_array_equal(everywhere, trained)
    np.testing.assert_array_equal(judged, trained[:, 0])
    assert np.abs(read(snr_db=40.0)[1][:, 0] - clean).mean() < np.abs(trained[:, 0] - clean).mean()


@needs_data
@pytest.mark.parametrize(("source", "name"), [("speech_commands", "gsc_v2_test"), ("log_mel", "gsc_v2_logmel_jpg.zip")])
def test_devices_have_variants_of_their_clips(model, source, name):
    background = DATA / "gsc_background_noise" if source == "speech_commands" else None
    data = DataSection(source, DATA / name, ("go",), speakers=40, variants=3, background=background)
    corpus = read_corpus(data, model.manifest, 1)
    rows = np.arange(len(corpus.labels))
    x = corpus.on_devices(rows)
    assert x.shape == (len(rows), 4, *model.manifest.input_shape)
    np.testing.assert_allclose(x[:, 0], corpus.features(rows), atol=1e-6)
    distances = [np.abs(x[:, 0] - x[:, copy]).mean() for copy in (1, 2, 3)]
    strangers = np.abs(x[:, 0] - np.roll(x[:, 0], 1, axis=0)).mean()
    assert all(0.1 < distance < 0.9 * strangers for distance in distances)
    assert len({round(float(distance), 6) for distance in distances}) == 3
