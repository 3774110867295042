"""Recordings of public collections as a corpus: a word each, nobody of the official test set, speech by the second."""

import zipfile

import numpy as np
import pytest

from benchmarks.spoken_words import main, of_test_set
from edge_client.audio.recordings import encode_wave, read_recording
from model_export.pretraining.corpus import speakers_of
from tests.support.checkout import DATA

RATE = 16_000
NOT_OF_TEST = "00176480"


def tone(path, seconds):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_wave((0.1 * np.sin(np.arange(round(seconds * RATE)) / 8)).astype(np.float32), RATE))


@pytest.mark.skipif(not (DATA / "gsc_v2_test").is_dir(), reason="needs Speech Commands' test set")
def test_speakers_of_the_official_test_set_are_known_by_their_names():
    assert all(map(of_test_set, speakers_of(DATA / "gsc_v2_test")))
    assert 0.08 < np.mean([of_test_set(f"{number:08x}") for number in range(3_000)]) < 0.12


def test_the_corpus_has_words_and_seconds_of_speech(tmp_path, capsys):
    sources, folder = tmp_path / "sources", tmp_path / "corpus"
    of_test = next(name for name in (f"{number:08x}" for number in range(100)) if of_test_set(name))
    for name in (f"{NOT_OF_TEST}_nohash_0", f"{NOT_OF_TEST}_nohash_1", f"{of_test}_nohash_0", "white_noise"):
        tone(sources / "dead_simple" / "data" / "bed" / f"{name}.wav", 1)
    tone(sources / "dspspeech" / "speech_data" / "153" / "153-12-16.wav", 2)
    tone(sources / "wake_words" / "audio" / "view glass" / "a1.wav", 2)
    (sources / "wake_words" / "audio" / "view glass" / "empty.wav").write_bytes(b"")
    tone(sources / "orders" / "data" / "speech" / "clean" / "b2.wav", 2.5)
    tone(sources / "resemblyzer" / "audio_data" / "train" / "7-8-9.wav", 1)  # FLAC alone is LibriSpeech
    loud = np.sin(np.arange(RATE) / 8)
    said = np.concatenate([loud, 0.01 * loud, loud]).astype(np.float32) / 10
    (sources / "orders" / "data" / "speech" / "clean" / "c3.wav").write_bytes(encode_wave(said, RATE))
    with zipfile.ZipFile(tmp_path / "pictures.zip", "w") as archive:
        archive.writestr(f"unknown/{NOT_OF_TEST}_nohash_1.bed.jpg", b"")
    assert main([str(sources), str(folder), "--pictures", str(tmp_path / "pictures.zip")]) == 0
    assert "1 recordings could not be read" in capsys.readouterr().out
    assert sorted(str(path.relative_to(folder)) for path in folder.glob("*/*")) == [
        "_speech_/b2_0.wav",
        "_speech_/b2_1.wav",
        "_speech_/c3_0.wav",
        "_speech_/c3_1.wav",
        f"bed/{NOT_OF_TEST}_nohash_0.wav",
        "speech/153_16.wav",
        "view_glass/a1_0.wav",
    ]
    assert all(len(read_recording(path, RATE)) == RATE for path in folder.glob("*/*"))
