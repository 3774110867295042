"""Real recordings and pictures become the features that a device would learn from."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

from edge_client.capture.recordings import read_clip
from edge_client.features import Mfcc
from edge_client.model_runtime import ModelRuntime
from fleet_simulator.corpora import read_corpus
from fleet_simulator.errors import CorpusError
from fleet_simulator.experiment import DataSection
from fleet_simulator.recording_layouts import NOBODY

DATA = Path(os.environ.get("AURICLE_DATA", Path(__file__).resolve().parent.parent.parent / "shared" / "data"))
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


@pytest.mark.parametrize("source", ["speech_commands", "log_mel"])
def test_data_that_is_not_there_is_named(tmp_path, model, source):
    with pytest.raises(CorpusError, match=r"there is no .*nowhere"):
        read_corpus(DataSection(source, tmp_path / "nowhere"), model.manifest, 0)
