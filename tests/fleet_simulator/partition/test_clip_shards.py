"""Shards read from their file hold what those in memory do, with variants on devices and none elsewhere."""

import numpy as np
import pytest

from fleet_simulator.data.corpora import Corpus
from fleet_simulator.errors import RunFolderError
from fleet_simulator.partition.clip_shards import deal, open_shards, write_shards
from fleet_simulator.partition.splits import hold_out, split
from tests.fleet_simulator.partition.test_splits import experiment


def corpus_of(variants, windows=1, recordings=300):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((recordings * windows, variants, 5, 3), np.float32)
    judged = x[:, 0] + 100
    labels = rng.integers(4, size=recordings).repeat(windows)
    speakers = np.array([f"s{n}" for n in rng.integers(40, size=recordings)]).repeat(windows)
    trained = (lambda rows: x[rows]) if variants > 1 else None
    return Corpus(tuple("abcd"), labels, speakers, lambda rows: judged[rows], trained, windows)


def dealt(corpus, how="speaker", held_out=0.4):
    parts = split(corpus, experiment(7, how))
    owned = hold_out(parts.devices, held_out, 1, corpus.windows)
    return deal(corpus, owned, parts.public, parts.test), owned, parts


@pytest.mark.parametrize("variants", [1, 4])
def test_shards_of_a_file_are_those_of_memory(tmp_path, variants):
    corpus = corpus_of(variants)
    shards, owned, parts = dealt(corpus)
    write_shards(tmp_path / "data", shards, "digest")
    found = open_shards(tmp_path / "data", "digest")
    places = [part(device) for device in range(7) for part in (found.rows, found.choose, found.evaluate)]
    for rows in (*places, found.public, found.test):
        np.testing.assert_array_equal(found.clips(rows).x, shards.clips(rows).x)
        np.testing.assert_array_equal(found.labels(rows), shards.labels(rows))
        np.testing.assert_array_equal(found.features(rows), found.clips(rows).x[0])
    np.testing.assert_array_equal(found.features(found.test), corpus.features(parts.test))
    np.testing.assert_array_equal(found.features(found.public), corpus.features(parts.public))
    clips = found.clips(found.rows(3))
    assert clips.x.shape == (variants, len(owned[3].train), 5, 3)
    np.testing.assert_array_equal(clips.x.swapaxes(0, 1), corpus.on_devices(owned[3].train))
    assert open_shards(tmp_path / "data", "another experiment's") is None


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("header.json", b"{", "Expecting property name"),
        ("header.json", b"[]", "list indices"),
        ("header.json", b'{"experiment": "digest"}', "'names'"),
        ("header.json", b'{"experiment": "digest", "names": 4, "shape": [1, 5, 3]}', "not iterable"),
        ("header.json", b"\xff\xfe\xfd", "codec can't decode"),
        ("ends.npy", b"", "No data left in file"),
        ("labels.npy", b"\x93NUMPY", "EOF: reading magic string"),
        ("features.f32", b"1234", "is not as long as 300 clips"),
    ],
)
def test_damaged_files_are_explained(tmp_path, name, content, message):
    write_shards(tmp_path / "data", dealt(corpus_of(1))[0], "digest")
    (tmp_path / "data" / name).write_bytes(content)
    with pytest.raises(RunFolderError, match=rf"data is damaged \(.*({message}).*\); remove it"):
        open_shards(tmp_path / "data", "digest")


@pytest.mark.parametrize("how", ["speaker", "dirichlet", "iid"])
def test_clips_of_one_recording_stay_together(how):
    corpus = corpus_of(1, windows=3)
    _, owned, parts = dealt(corpus, how)
    places = [part for one in owned for part in (one.train, one.choose, one.evaluate)] + [parts.public, parts.test]
    assert sorted(np.concatenate(places)) == list(range(900))
    recordings = [set(rows // 3) for rows in places]
    assert sum(map(len, recordings)) == 300
    for one in owned:
        train, choose, evaluate = (len(part) // 3 for part in (one.train, one.choose, one.evaluate))
        assert choose == evaluate == round(0.2 * (train + choose + evaluate))
