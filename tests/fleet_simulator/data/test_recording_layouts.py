"""Data sets are read as their authors lay them out: labels, speakers or recordings, and nobody on two sides."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from edge_client.features.mfcc import Mfcc
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.feature_settings import preset
from fleet_simulator.cli import main
from fleet_simulator.data.corpora import clips_of, read_corpus
from fleet_simulator.errors import CorpusError, RefusedKeyError
from fleet_simulator.experiment.sections import DataSection
from tests.support.simulated_fleet import write_experiment


@pytest.fixture(scope="module")
def model(bundles):
    return ModelRuntime.open(bundles["ann3"])


def write(path: Path, seconds=0.3, rate=8_000):
    """Write noise of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(int.from_bytes(path.stem.encode(), "big"))
    soundfile.write(path, rng.integers(-9000, 9000, round(seconds * rate)).astype(np.int16), rate)
    return path


def read(model, source, path, **keys):
    corpus = read_corpus(DataSection(source, path, **keys), model.manifest, 0)
    found = {(corpus.names[slot], str(who)) for slot, who in zip(corpus.labels, corpus.speakers, strict=True)}
    return corpus, found


def test_urbansound8k_as_it_is_distributed(tmp_path, model):
    for name in ("fold1/101415-3-0-2", "fold1/101415-3-0-3", "fold1/9031-3-2-0", "fold10/24074-1-0-0"):
        write(tmp_path / "audio" / f"{name}.wav")
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "UrbanSound8K.csv").write_text(
        "slice_file_name,fsID,start,end,salience,fold,classID,class\n"
    )
    (tmp_path / "audio" / "fold1" / ".DS_Store").write_bytes(b"")
    corpus, found = read(model, "urbansound8k", tmp_path)
    assert corpus.names == ("car_horn", "dog_bark")
    assert found == {("dog_bark", "101415"), ("dog_bark", "9031"), ("car_horn", "24074")}
    assert len(corpus.labels) == 4


def test_speech_commands_as_it_is_distributed_with_seconds_of_noise(tmp_path, model):
    for name in ("yes/004ae714_nohash_0", "yes/004ae714_nohash_1", "bed/0132a06d_nohash_0"):
        write(tmp_path / f"{name}.wav", seconds=1.0)
    write(tmp_path / "_background_noise_" / "doing_the_dishes.wav", seconds=3.7)
    write(tmp_path / "_background_noise_" / "tap.wav", seconds=1.2)
    (tmp_path / "_background_noise_" / "README.md").write_text("Background noise")
    (tmp_path / "testing_list.txt").write_text("yes/004ae714_nohash_0.wav\n")
    corpus, found = read(model, "speech_commands", tmp_path)
    assert corpus.names == ("bed", "yes")
    assert found == {("bed", "0132a06d"), ("yes", "004ae714")}
    corpus, found = read(model, "speech_commands", tmp_path, labels=("yes", "_background_noise_"))
    assert np.bincount(corpus.labels).tolist() == [2, 4]
    assert ("_background_noise_", "") in found
    noise = corpus.features(np.flatnonzero(corpus.labels == 1))
    assert len({row.tobytes() for row in noise}) == 4


def test_own_recordings_in_a_folder_for_each_label_are_simulated(tmp_path):
    for label, tone_hz in (("bell", 300), ("dog", 1200)):
        for number, suffix in enumerate(("wav", "flac", "ogg") * 6):
            path = tmp_path / "own" / label / f"speaker{number // 3}_{number} take.{suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            noise = np.random.default_rng(number).normal(0, 0.02, 16_000)
            soundfile.write(path, 0.3 * np.sin(2 * np.pi * tone_hz * np.arange(16_000) / 16_000) + noise, 16_000)
    (tmp_path / "own" / "notes.txt").write_text("mine")
    data = {"source": "recordings", "path": "own", "speakers": 6}
    experiment = write_experiment(tmp_path / "fleet.toml", "cnn1", data=data, fleet={"devices": 3})
    assert main(["run", str(experiment), "--workers", "0"]) == 0
    result = json.loads((tmp_path / "fleet" / "result.json").read_text())
    assert np.array(result["rounds"][-1]["confusion"]).tolist() == [[3, 0], [0, 3]]  # of the one test speaker


@pytest.mark.parametrize("source", ["recordings", "speech_commands", "urbansound8k"])
def test_a_folder_of_another_layout_is_told_what_is_expected(tmp_path, model, source):
    write(tmp_path / "song.wav")
    with pytest.raises(CorpusError, match=r"holds no clips as .*<"):
        read(model, source, tmp_path)
    with pytest.raises(CorpusError, match="there is no folder"):
        read(model, source, tmp_path / "nowhere")


def test_windows_lie_equally_far_from_one_another_and_one_is_the_loudest_stretch():
    settings = preset("hello_edge")
    samples = np.arange(64_000, dtype=np.float32) / 64_000
    starts = clips_of(samples, 4, settings)[:, 0] * 64_000
    np.testing.assert_allclose(starts, [0, 16_000, 32_000, 48_000])
    np.testing.assert_allclose(clips_of(samples, 1, settings)[0, 0] * 64_000, 48_000)
    short = clips_of(samples[:4_000], 2, settings)
    assert short.shape == (2, 16_000)
    np.testing.assert_array_equal(short[0], short[1])
    assert Mfcc(settings)(short).shape == (2, *settings.shape)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"source": "synthetic", "snr_db": 10.0}, "snr_db = 10.0.*'synthetic'"),
        ({"source": "log_mel", "path": Path("x"), "windows": 2}, "windows.*'log_mel'"),
        ({"source": "recordings", "path": Path("x"), "background": Path("y")}, "background.*needs 'variants'"),
        ({"source": "recordings", "path": Path("x"), "noisy": "some"}, "noisy = 'some': must be devices, all"),
        ({"source": "recordings"}, "needs the key 'path'"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(keys, says):
    with pytest.raises(RefusedKeyError, match=says):
        DataSection(**keys)
