"""Corpora: which clips are read, by whom, and what is left out of training."""

import io
import wave
import zipfile

import numpy as np
import pytest
from PIL import Image

from model_export.errors import CorpusError
from model_export.pretraining.corpus import NOISE, divide, read_corpus, read_log_mel, settings_of, speakers_of
from model_export.pretraining.pictures import BANDS, FRAMES, LOG_POWERS, mel_power, to_pixels, without_unknown
from tests.support.sounds import write_clips


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "pictures.zip"
    names = ("yes/aaaaaaaa_nohash_0.yes", "unknown/bbbbbbbb_nohash_0.bed", "_background_noise_/7_background")
    with zipfile.ZipFile(path, "w") as zipped:
        for level, name in enumerate(names):
            buffer = io.BytesIO()
            Image.new("L", (BANDS, FRAMES), 50 * level).save(buffer, "jpeg")
            zipped.writestr(f"{name}.jpg", buffer.getvalue())
    return path


def test_an_archive_names_words_speakers_and_noise(archive):
    corpus = read_corpus([archive])
    assert corpus.words.tolist() == ["yes", "bed", NOISE]
    assert corpus.speakers.tolist() == ["aaaaaaaa", "bbbbbbbb", ""]
    assert corpus.pixels.shape == (3, 98, 40)
    assert corpus.vocabulary == ("bed", "yes")
    wide = read_corpus([archive], settings_of(53)).pixels
    assert np.array_equal(wide[:, :, :40], corpus.pixels)
    assert (without_unknown(np.ones(wide.shape), wide) == (np.arange(53) < 40)).all()
    assert speakers_of(archive) == {"aaaaaaaa", "bbbbbbbb"}


def test_folders_name_the_word_before_the_speaker_and_cut_long_noise(tmp_path):
    write_clips(tmp_path, "yes", 2, seed=1, name="_unknown_")
    for path in (tmp_path / "_unknown_").iterdir():
        path.rename(path.with_name(f"bed_{path.name}"))
    (tmp_path / "_background_noise_").mkdir()
    with wave.open(str(tmp_path / "_background_noise_" / "hum.wav"), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes(np.zeros(16_000 * 3 + 5, "<i2").tobytes())
    corpus = read_corpus([tmp_path])
    assert corpus.words.tolist() == [NOISE] * 3 + ["bed"] * 2
    assert set(corpus.speakers[3:]) == speakers_of(tmp_path) == {"00010000", "00010001"}
    features, words, _ = read_log_mel(tmp_path)
    assert features.shape == (5, 98, 40)
    assert features.dtype == np.float32
    assert np.allclose(features[0], np.log(1e-6))
    assert words.tolist() == corpus.words.tolist()
    wide = read_log_mel(tmp_path, settings_of(53))[0]
    assert np.allclose(wide[:, :, :40], features, atol=1e-4)
    assert not np.allclose(wide[3:, :, 40:], wide[3:, :, 39:40], atol=1)  # a recording's bands above 4 kHz
    assert (without_unknown(wide, wide)[3:] == wide[3:]).all()


def test_pixels_and_powers_are_each_others_inverse():
    pixels = np.arange(256, dtype=np.uint8)
    assert np.array_equal(to_pixels(LOG_POWERS), pixels)
    assert np.allclose(np.log(mel_power(pixels)), LOG_POWERS, atol=1e-5)


def test_speakers_and_words_are_left_out(tmp_path):
    for label in ("yes", "no", "stop"):
        write_clips(tmp_path, label, 4, seed=2)
    corpus = read_corpus([tmp_path])
    division = divide(corpus, {"00020000"}, ["stop"])
    assert division.training.vocabulary == division.validation.vocabulary == ("no", "yes")
    assert set(division.validation.speakers) == {"00020000"}
    assert "00020000" not in division.training.speakers
    assert division.new_words.vocabulary == ("stop",)
    assert len(division.new_words) == 4
    assert division.training.digest() != corpus.digest()


def test_what_is_no_corpus_is_refused(tmp_path):
    with pytest.raises(CorpusError, match="holds no recordings as"):
        read_corpus([tmp_path])
    (tmp_path / "a.zip").write_bytes(b"no zip")
    with zipfile.ZipFile(tmp_path / "b.zip", "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("yes/a_nohash_0.jpg", bytes(range(256)) * 20)
    data = (tmp_path / "b.zip").read_bytes()
    (tmp_path / "b.zip").write_bytes(data[:48] + b"\xff" + data[49:])
    for name in ("a.zip", "b.zip"):
        with pytest.raises(CorpusError, match="is no archive of log-mel pictures"):
            read_corpus([tmp_path / name])
