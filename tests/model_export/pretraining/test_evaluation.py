"""Figures of a report, on embeddings whose answers are known."""

import io
import zipfile

import numpy as np
import pytest

from fleet_protocol.errors import AuricleError
from model_export.errors import ExportError
from model_export.pretraining import front_end_file
from model_export.pretraining.corpus import NOISE
from model_export.pretraining.evaluation import closed_set, few_shot, twelve_classes
from model_export.pretraining.measurement import Embedded, measure
from tests.support.flips import flips


def test_a_closed_set_counts_and_names_confusions():
    logits = np.eye(3)[[0, 1, 1, 2]].astype(np.float32)
    result = closed_set(logits, ["a", "b", "c"], np.array(["a", "a", "b", "c"]))
    assert result.percent == 75
    assert [(c.word, c.taken_for, c.percent) for c in result.confusions] == [("a", "b", 50.0)]


def test_twelve_classes_add_up_the_other_words_and_do_not_prefer_what_was_frequent_in_training():
    classes = ["bed", "cat", "go", NOISE]
    logits = np.log([[0.3, 0.3, 0.4, 0.0001], [0.1, 0.1, 0.7, 0.1], [0.1, 0.1, 0.1, 0.7]]).astype(np.float32)
    result = twelve_classes(logits, classes, np.array(["tree", "go", NOISE]), np.array([0.1, 0.1, 0.4, 0.4]))
    assert (result.percent, result.classes) == (100, 12)
    logits, shares = np.log([[0.2, 0.5, 0.3]]).astype(np.float32), np.array([0.1, 0.8, 0.1], np.float32)
    assert twelve_classes(logits, ["bed", "go", NOISE], np.array([NOISE]), shares).percent == 100


def embeddings(voice, seed=0):
    """Four words by twelve speakers, twelve takes each; each speaker's clips are moved by the voice."""
    rng = np.random.default_rng(seed)
    places, voices = rng.normal(size=(4, 8)) * 3, rng.normal(size=(12, 8)) * voice
    rows = [(word, who) for word in range(4) for who in range(12) for _ in range(12)]
    x = np.array([places[word] + voices[who] + rng.normal(size=8) * 0.3 for word, who in rows], np.float32)
    words, speakers = (np.array([f"{letter}{row[i]}" for row in rows]) for i, letter in enumerate("ws"))
    return x, words, speakers


def measured(x, words, samples=2, noises=2):
    """Statistics of clips, of variants that scatter twice as far, and of speech that is as all words are."""
    centres = {word: x[words == word].mean(axis=0) for word in np.unique(words)}
    wider = np.stack([2 * row - centres[word] for row, word in zip(x, words, strict=True)])
    return measure(Embedded(x, words), Embedded(wider, words), x, samples, noises, seed=0)


def test_few_shot_tells_teachers_from_others():
    x, words, speakers = embeddings(voice=2.0)
    results = few_shot("test", x, words, speakers, measured(x, words), seed=0)
    cases = {(case.takes, case.speakers): case for case in results}
    assert cases[5, 1].same_speaker > cases[5, 1].other_speakers
    assert cases[5, 4].other_speakers > cases[5, 1].other_speakers
    assert cases[1, 10].ways == 4
    assert (1, 20) not in cases
    assert results == few_shot("test", x, words, speakers, measured(x, words), seed=0)


def test_a_damaged_file_and_a_foreign_one_are_refused(tmp_path):
    x, words, _ = embeddings(voice=0.0)
    packed = measured(x, words).pack({})
    data = front_end_file.serialise({"name": "x"}, b"graph", b"small", packed)
    assert data == front_end_file.serialise({"name": "x"}, b"graph", b"small", packed)
    path = tmp_path / "x.frontend"
    path.write_bytes(data)
    assert front_end_file.read(path).float32 == b"graph"
    empty = io.BytesIO()
    with zipfile.ZipFile(empty, "w") as archive:
        archive.writestr(front_end_file.DESCRIPTION, b'{"format": "auricle-front-end", "version": 1, "files": {}}')
    for damaged in (data[:-40], empty.getvalue()):
        path.write_bytes(damaged)
        with pytest.raises(ExportError, match="is no readable front end"):
            front_end_file.read(path)
    for member, content, message in (
        (front_end_file.INT8, b"other", "network_int8.tflite does not match its digest"),
        (front_end_file.DESCRIPTION, b'{"format": "auricle-front-end", "version": 9}', "is of version 9, not 1"),
    ):
        with zipfile.ZipFile(io.BytesIO(data)) as whole, zipfile.ZipFile(path, "w") as changed:
            for name in whole.namelist():
                changed.writestr(name, content if name == member else whole.read(name))
        with pytest.raises(ExportError, match=message):
            front_end_file.read(path)


def test_of_flipped_bits_each_is_noticed_or_harmless_in_a_file_and_in_the_one_that_holds_its_network(tmp_path):
    x, words, _ = embeddings(voice=0.0)
    parts = {"name": "x"}, b"graph" * 100, b"small" * 100, measured(x, words).pack({})
    data, thin = (front_end_file.serialise(*parts, left_out=names) for names in ((), (front_end_file.FLOAT32,)))
    whole, path = tmp_path / "a.frontend", tmp_path / "b.frontend"
    path.write_bytes(thin)
    refused = 0
    for damaged in flips(data, 300, seed=0):
        whole.write_bytes(damaged)
        for file in (whole, path):
            try:
                assert front_end_file.read(file).float32 == parts[1]
            except AuricleError:
                refused += 1
    assert 300 < refused < 600
