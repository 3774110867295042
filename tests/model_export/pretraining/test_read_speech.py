"""Read speech: recordings one behind the other, words where the marks say, and marks that cannot be used."""

import gzip
import json

import numpy as np
import pytest

from edge_client.audio.recordings import encode_wave
from edge_client.features.front_end import open_front_end
from model_export.errors import CorpusError
from model_export.pretraining import read_speech
from model_export.pretraining.corpus import SETTINGS
from model_export.pretraining.pictures import to_pixels
from model_export.pretraining.read_speech import read

RATE = 16_000
WORDS = [["fourteen", 0, 49], ["sixty", 50, 99], ["fourteen", 100, 149], ["the", 150, 160]]


@pytest.fixture
def recordings(tmp_path):
    """Two recordings of two seconds: half a second loud, half a second quiet, and so on."""
    loud, quiet = (level * np.sin(np.arange(RATE // 2) / 3) for level in (0.5, 0.1))
    folder = tmp_path / "recordings" / "chapter"
    folder.mkdir(parents=True)
    for name in ("l-1", "l-2"):
        samples = np.concatenate([loud, quiet, loud, quiet]).astype(np.float32)
        (folder / f"{name}.wav").write_bytes(encode_wave(samples, RATE))
    return folder.parent


def marks(folder, *recordings, words=WORDS, **phones):
    path = folder / "marks.json.gz"
    lines = [{"recording": name, "speaker": speaker, "words": words, **phones} for name, speaker in recordings]
    path.write_bytes(gzip.compress(json.dumps(lines).encode()))
    return path


def test_words_lie_where_the_marks_say(tmp_path, recordings):
    speech = read(marks(tmp_path, ("l-1", "lj"), ("l-2", "anna")), recordings, (), ("sixty",))
    assert speech.words.tolist() == ["fourteen"] * 4  # "the" is short
    levels = speech.pixels.astype(float).mean(axis=1)
    for first, last in speech.marks:
        assert last - first == 49
        assert levels[first + 2 : last - 2].min() > levels[last + 3 : last + 40].max() + 10
    second = (recordings / "chapter" / "l-1.wav").read_bytes()[44:]
    samples = np.frombuffer(second, "<i2")[:RATE].astype(np.float32) / 32768
    expected = to_pixels(open_front_end(SETTINGS)(samples)).astype(int)
    assert np.abs(speech.pixels[: len(expected)].astype(int) - expected).max() <= 1
    assert speech.digest() != read(marks(tmp_path, ("l-1", "lj")), recordings, (), ("sixty",)).digest()


def test_speakers_are_left_out_with_all_that_they_say(tmp_path, recordings):
    both = read(marks(tmp_path, ("l-1", "lj"), ("l-2", "anna")), recordings, (), ())
    assert sorted(set(both.words)) == ["fourteen", "sixty"]
    alone = read(marks(tmp_path, ("l-1", "lj"), ("l-2", "anna")), recordings, ("anna",), ())
    assert alone.words.tolist() == ["fourteen"] * 2  # "sixty" is said once
    assert 2 * len(alone.pixels) == len(both.pixels)


def test_phones_and_their_frequent_pairs_lie_where_the_marks_say(tmp_path, recordings, monkeypatch):
    monkeypatch.setattr(read_speech, "_FREQUENT", 2)
    phones = [["f", 0, 24], ["s", 25, 49], ["f", 55, 60], ["s", 62, 70]]
    speech = read(marks(tmp_path, ("l-1", "lj"), ("l-2", "anna"), phones=phones), recordings, (), ())
    begin = speech.marks[speech.words == "fourteen"][2, 0]  # of the second recording
    found = np.repeat([0, 1, -1, 0, -1, 1, -1], [25, 25, 5, 6, 1, 9, 10])
    assert speech.phones[:81].tolist() == speech.phones[begin : begin + 81].tolist() == found.tolist()
    assert np.flatnonzero(speech.pairs == 0).tolist() == [25, 62, begin + 25, begin + 62]
    assert speech.digest() != read(marks(tmp_path, ("l-1", "lj"), ("l-2", "anna")), recordings, (), ()).digest()


def test_marks_that_cannot_be_used_are_refused(tmp_path, recordings):
    with pytest.raises(CorpusError, match="names 'l-3', which"):
        read(marks(tmp_path, ("l-3", "lj")), recordings, (), ())
    with pytest.raises(CorpusError, match="marks no word of 170 ms that is said twice"):
        read(marks(tmp_path, ("l-1", "lj"), words=WORDS[1:2]), recordings, (), ())
    whole = marks(tmp_path, ("l-1", "lj")).read_bytes()
    for name, data in (("a.json", b'[{"recording": "l-1"}]'), ("b.gz", whole[:-9]), ("c.gz", whole[:20] + whole[22:])):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(CorpusError, match="has no marks of words"):
            read(tmp_path / name, recordings, (), ())
