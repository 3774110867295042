"""The commands by which an owner teaches a device; recording hears what is really played."""

import json
import re
import shutil
import time

import numpy as np
import pytest
import soundfile

from edge_client.audio.recordings import Recordings
from edge_client.clips.unknown_clips import UnknownClips
from edge_client.config.sections import ClipsConfig
from fleet_protocol.bundle.feature_settings import PRESETS
from tests.support.edge_commands import EdgeCommands
from tests.support.sound_server import said
from tests.support.sounds import write_clips

pytestmark = pytest.mark.slow

SETTINGS = PRESETS["gudur"]


@pytest.fixture
def edge(tmp_path, bundles, capsys):
    return device(tmp_path, capsys, bundles["cnn1"])


def device(folder, capsys, bundle):
    edge = EdgeCommands(folder, capsys, bundle)
    edge.config.write_text(edge.config.read_text() + '[microphone]\ndevice = "shelf"\n')
    return edge


def test_takes_are_recorded_from_a_real_microphone_cut_and_stored(edge, sound_server):
    child = edge.start("record", "--label", "whistle", "--count", "2")
    assert "be quiet" in child.stdout.readline()
    line = child.stdout.readline()
    assert line.startswith("The room has")
    rng = np.random.default_rng(3)
    sound_server.play_on(np.concatenate([said("stop", rng) for _ in range(8)]))
    out, errors = child.communicate(timeout=180)
    assert child.returncode == 0, out + errors
    assert "take 2 of 2: kept" in out
    assert "2 takes were kept; 'whistle' has 2" in out
    recordings = Recordings((edge.state.folder / "clips"), SETTINGS)
    assert recordings.labels() == ("whistle",)
    for path in recordings.clips("whistle"):
        assert soundfile.info(path).frames == SETTINGS.clip_samples
    assert np.abs(recordings.load(recordings.clips("whistle"))).max(axis=1).min() > 0.05
    assert edge.count("_background_") == 1  # three seconds of the same digital silence
    for path in (edge.state.folder).rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_recordings_are_imported_once_each_and_bad_ones_are_named(edge, tmp_path):
    source = tmp_path / "recordings"
    write_clips(source, "yes", 3, seed=1)
    write_clips(source, "no", 2, seed=1)
    (source / "_x").mkdir()
    shutil.copy(next((source / "no").glob("*.wav")), source / "_x" / "a.wav")
    (source / "yes" / "notes.txt").write_text("hello")
    (source / "yes" / "bad.wav").write_bytes(b"no sound")
    (source / "yes" / ".hidden").write_bytes(b"")
    soundfile.write(source / "yes" / "silent.flac", np.zeros(8_000), 16_000)
    rng = np.random.default_rng(0)
    long = np.concatenate([rng.normal(scale=0.01, size=30_000), 0.5 * np.sin(np.arange(22_050) / 10), np.zeros(9_000)])
    soundfile.write(source / "no" / "long.ogg", np.stack([long, long], axis=1), 22_050)

    out = edge("import", source)
    assert "no: 3 clips\nyes: 3 clips\n6 stored, 0 were there already, 4 refused" in out
    assert edge.count("yes") == edge.count("no") == 3
    recordings = Recordings((edge.state.folder / "clips"), SETTINGS)
    assert {soundfile.info(path).samplerate for path in recordings.clips("no")} == {SETTINGS.sample_rate_hz}
    assert {soundfile.info(path).frames for path in recordings.clips("no")} == {SETTINGS.clip_samples}
    levels = np.sqrt((recordings.load(recordings.clips("no")) ** 2).mean(axis=1))
    assert levels.max() == pytest.approx(0.5 / np.sqrt(2), rel=0.05)  # of the long one the loud second

    assert "0 stored, 6 were there already" in edge("import", source)
    flat = edge("import", source / "yes", "--label", "ja")
    assert "ja: 3 clips" in flat
    assert "no folders of recordings" in edge("import", source / "yes", status=1)
    assert "is not a folder" in edge("import", source / "gone", status=1)


def test_clips_are_listed_relabelled_and_deleted(edge, tmp_path):
    source = tmp_path / "recordings"
    write_clips(source, "yes", 3, seed=1)
    write_clips(source, "no", 2, seed=1)
    edge("import", source)
    listed = edge("clips")
    assert re.search(r"^no +2 +2\.0 +0\.06$", listed, re.MULTILINE)
    assert re.search(r"^yes +3 +3\.0 +0\.09$", listed, re.MULTILINE)
    assert "0.1 of 500 MB are used" in listed
    first, *_ = (line.split()[0] for line in edge("clips", "--label", "yes").splitlines())
    assert "'yes' is 'nein' now" in edge("clips", "relabel", first[:8], "nein")
    assert (edge.count("yes"), edge.count("nein")) == (2, 1)
    assert "name one clip" in edge("clips", "relabel", "nein", status=1)
    assert "labels: nein, no, yes" in edge("clips", "relabel", "--label", "stop", "no", status=1)
    assert "1 clips deleted" in edge("clips", "delete", "--yes", first)
    assert "2 clips deleted" in edge("clips", "delete", "--yes", "--label", "yes")
    assert not ((edge.state.folder / "clips") / "yes").exists()
    assert "labels: no" in edge("clips", "delete", "--yes", "--label", "yes", status=1)
    assert "no clip is called 'zz'" in edge("clips", "relabel", "zz", "no", status=1)
    assert "cannot be a label" in edge("clips", "relabel", edge("clips", "--label", "no").split()[0], "", status=1)


def test_unknown_sounds_are_listed_and_named(edge):
    assert "no unknown sounds" in edge("label")
    ring = UnknownClips(edge.state.folder / "unknown", ClipsConfig(), SETTINGS.sample_rate_hz)
    rng = np.random.default_rng(0)
    for number in range(3):
        ring.add(time.time() - number, 0.25, rng.uniform(-0.5, 0.5, SETTINGS.clip_samples).astype(np.float32))
    lines = edge("label").splitlines()
    assert len(lines) == 3
    assert "dB  best score 0.25" in lines[0]
    assert all(one["heard"].endswith("Z") for one in json.loads(edge("label", "--json")))
    ids = [line.split()[0] for line in lines]
    assert "says too little" in edge("label", ids[0], status=1)
    assert "2 clips of 'kettle' more, 2 altogether" in edge("label", *ids[:2], "kettle")
    assert edge.count("kettle") == 2
    assert edge("label").split()[0] == ids[2]
    assert "no unknown sound is called" in edge("label", ids[0], "kettle", status=1)


def test_what_is_not_a_sound_is_imported_and_labelled_as_such(tmp_path, pretrained_bundle, bundles, capsys):
    (tmp_path / "a").mkdir()
    edge = device(tmp_path / "a", capsys, pretrained_bundle)
    for label in ("stop", "no"):
        write_clips(tmp_path / "recordings", label, 3, seed=1)
    edge("import", tmp_path / "recordings" / "stop", "--label", "stop")
    assert "no sound is called 'halt'" in edge("import", tmp_path / "recordings" / "no", "--not", "halt", status=1)
    one = next((tmp_path / "recordings" / "no").glob("*.wav"))
    assert "_not_/stop: 1 clips" in edge("import", one, "--not", "stop")
    ring = UnknownClips(edge.state.folder / "unknown", ClipsConfig(), 16_000)
    ring.add(time.time(), 0.25, np.random.default_rng(0).uniform(-0.5, 0.5, 16_000).astype(np.float32))
    name = edge("label").split()[0]
    assert "1 clips of '_not_/stop' more, 2 altogether" in edge("label", name, "--not", "stop")
    assert re.search(r"^_not_/stop +2 ", edge("clips"), re.MULTILINE)
    assert "2 clips deleted" in edge("clips", "delete", "--yes", "--label", "_not_/stop")
    (tmp_path / "b").mkdir()
    other = device(tmp_path / "b", capsys, bundles["cnn1"])
    other("import", one, "--label", "stop")
    assert "has no output for what is no label" in other("import", one, "--not", "stop", status=1)


def test_a_label_for_which_the_model_has_no_slot_is_refused(edge, tmp_path):
    for number in range(32):
        write_clips(tmp_path / "recordings", "yes", 1, seed=number, name=f"sound {number}")
    edge("import", tmp_path / "recordings")
    assert "no slot is free for 'one more'" in edge("record", "--label", "one more", status=1)
