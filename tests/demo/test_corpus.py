"""The synthesised corpus: the same files every time, speakers that differ, and nothing left behind when it fails."""

import numpy as np
import pytest

from demo import DemoError
from demo.corpus import EVERYDAY_SOUNDS, cached, synthesise
from edge_client.audio.recordings import Recordings, speaker_of
from fleet_protocol.bundle.feature_settings import PRESETS

pytest.importorskip("espeakng_loader")

KWS = PRESETS["kws40"]
LABELS = ("yes", "no", "dog_bark", "día")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus") / "made"
    synthesise(folder, LABELS, speakers=12, takes=2, seed=1)
    return folder


def content(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*.wav"))}


def test_every_speaker_says_every_label_in_every_take(folder):
    source = Recordings(folder, KWS)
    assert source.labels() == tuple(sorted(LABELS))
    for label in LABELS:
        clips = source.clips(label)
        assert len(clips) == 24
        assert len({speaker_of(clip) for clip in clips}) == 12
        assert {clip.stem.partition("_nohash_")[2] for clip in clips} == {"0", "1"}


def test_the_same_parameters_give_the_same_files_and_others_do_not(folder, tmp_path):
    synthesise(tmp_path / "same", LABELS, speakers=12, takes=2, seed=1)
    assert content(tmp_path / "same") == content(folder)
    synthesise(tmp_path / "other", LABELS, speakers=12, takes=2, seed=2)
    assert not set(content(tmp_path / "other").values()) & set(content(folder).values())


def test_every_everyday_sound_has_sources_of_its_own(tmp_path):
    for name in ("sounds", "same"):
        synthesise(tmp_path / name, EVERYDAY_SOUNDS, speakers=3, takes=2, seed=1, sounds=True)
    made = content(tmp_path / "sounds")
    assert made == content(tmp_path / "same")
    assert len(set(made.values())) == len(EVERYDAY_SOUNDS) * 3 * 2
    sources = {(path.parent.name, speaker_of(path)) for path in made}
    assert len(sources) == len({source for _, source in sources}) == len(EVERYDAY_SOUNDS) * 3
    source = Recordings(tmp_path / "sounds", KWS)
    for label in EVERYDAY_SOUNDS:
        samples = source.load(source.clips(label))
        assert samples.shape == (6, 16_000)
        assert np.abs(samples).max(axis=1).min() > 0.005


def test_a_corpus_is_made_once(tmp_path):
    first = cached(tmp_path / "build", ["yes"], 2, 1, 0)
    before = {path: path.stat().st_mtime_ns for path in first.rglob("*")}
    assert cached(tmp_path / "build", ["yes"], 2, 1, 0) == first
    assert {path: path.stat().st_mtime_ns for path in first.rglob("*")} == before
    assert cached(tmp_path / "build", ["yes"], 2, 1, 1) != first


@pytest.mark.parametrize(
    ("labels", "speakers", "takes", "message"),
    [
        ([], 1, 1, "needs labels, each once"),
        (["yes", "yes"], 1, 1, "needs labels, each once"),
        (["yes"], 0, 1, "'speakers': 0"),
        (["yes"], 1, 0, "'takes': 0"),
        (["a/b"], 1, 1, "'a/b' cannot be a label"),
        (["yes", "_noise"], 1, 1, "'_noise' cannot be a label"),
    ],
)
def test_what_cannot_be_synthesised_is_explained(tmp_path, labels, speakers, takes, message):
    with pytest.raises(DemoError, match=message):
        synthesise(tmp_path / "corpus", labels, speakers, takes, seed=0)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_of_the_synthesiser_is_told_and_leaves_nothing(tmp_path):
    with pytest.raises(DemoError, match=r"synthesis failed \(status 1\): espeak-ng cannot say ' '"):
        synthesise(tmp_path / "corpus", ["yes", " "], 1, 1, seed=0)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_exists_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(DemoError, match="exists already"):
        synthesise(tmp_path, ["yes"], 1, 1, seed=0)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
