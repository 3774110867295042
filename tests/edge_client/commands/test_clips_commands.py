"""Clips are imported from what people have, and deleting them takes their label away everywhere, and can be undone."""

import dataclasses
import json
import os
import subprocess
import sys
import time
from datetime import datetime

import numpy as np
import pytest
import soundfile

from edge_client.audio import recordings
from edge_client.config import load_config
from edge_client.learning.forgotten_labels import forget_noted
from edge_client.owner import Teaching
from edge_client.owner_changes import empty_deleted
from fleet_protocol.bundle.feature_settings import PRESETS
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import ClassInfo
from fleet_protocol.numbers.tensors import digest
from tests.support.checkout import ROOT
from tests.support.sounds import melody, write_clips

RATE = 16_000
SETTINGS = PRESETS["gudur"]


def sound(label="yes", seed=0):
    return melody(label, np.random.default_rng(seed))


def test_mp3_and_opus_are_imported_and_for_others_the_ffmpeg_line_is_given(edge):
    folder = edge.folder / "bell"
    folder.mkdir()
    soundfile.write(folder / "a.mp3", sound(seed=1), RATE, format="MP3")
    soundfile.write(folder / "b.opus", sound(seed=2), RATE, format="OGG", subtype="OPUS")
    (folder / "my sound.m4a").write_bytes(b"\0\0\0\x18ftypM4A ")
    found = json.loads(edge("import", folder, "--label", "bell", "--json"))
    assert found["stored"] == {"bell": 2}
    ((path, reason),) = found["refused"].items()
    assert path.endswith("my sound.m4a")
    assert f"ffmpeg -i '{folder}/my sound.m4a' '{folder}/my sound-again.wav'" in reason
    for clip in (edge.folder / "state" / "clips" / "bell").iterdir():
        assert np.abs(soundfile.read(clip)[0]).max() > 0.1


def test_recordings_are_taken_over_while_the_model_that_they_will_teach_is_damaged(edge):
    folder = edge.folder / "bell"
    folder.mkdir()
    soundfile.write(folder / "a.wav", sound(), RATE)
    (edge.state.folder / "model.safetensors").write_bytes(b"damaged")
    assert "bell: 1 clips" in edge("import", folder, "--label", "bell")


def test_a_file_s_name_neither_reaches_the_terminal_nor_forges_a_line_and_times_name_their_zone(edge):
    folder = edge.folder / "bell"
    folder.mkdir()
    for name in ("a\x1b]0;title\a\x1b[2J.wav", "new\nrefused nothing: all is well.wav"):
        (folder / name).write_bytes(b"no sound")
    refused = edge("import", folder, "--label", "bell", status=1)
    assert all(line.isprintable() for line in refused.splitlines())
    assert not any(line.startswith("refused nothing") for line in refused.splitlines())
    assert r"a\x1b]0;title\x07\x1b[2J.wav" in refused
    assert r"new\nrefused nothing" in refused
    soundfile.write(folder / "good.wav", sound(), RATE)
    edge("import", folder, "--label", "bell")
    (clip,) = json.loads(edge("clips", "--label", "bell", "--json"))
    assert clip["taken"].endswith("Z")
    assert abs(datetime.fromisoformat(clip["taken"]).timestamp() - time.time()) < 600


def test_a_tenth_of_a_second_is_refused_with_what_is_needed(edge):
    folder = edge.folder / "bell"
    folder.mkdir()
    soundfile.write(folder / "a.wav", 0.5 * np.sin(np.arange(RATE // 10) / 5), RATE)
    assert "says too little" not in edge("import", folder, "--label", "bell", status=1)
    refused = edge("import", folder, "--label", "bell", status=1)
    assert "lasts 0.10 s, and the least is 0.2 s" in refused
    assert "with --label" in edge("import", folder / "a.wav", status=1)


def knows(edge, label_map):
    """Give the device a model with these labels, and clips of all of them."""
    saved = edge.state.model.load(load_config(edge.config).model.bundle)
    progress = dataclasses.replace(saved.progress, label_map=label_map, tails={"anna": (0.1, 0.2), "yes": (0.1, 0.2)})
    edge.state.model.save(saved.bundle.weights, saved.listening, progress)
    edge.state.save_advice([{"label": label, "takes": 2, "lines": []} for label in label_map.labels])
    for label in label_map.labels:
        for number in range(2):
            folder = edge.folder / "recordings" / label
            folder.mkdir(parents=True, exist_ok=True)
            soundfile.write(folder / f"{number}.wav", sound(seed=number + 10 * len(label)), RATE)
    edge("import", edge.folder / "recordings")


def labels(edge):
    return edge.state.model.load(load_config(edge.config).model.bundle).progress.label_map.labels


def own(label_map, *names):
    for name in names:
        label_map = label_map.add(name)
    return label_map


def naming_anna(edge):
    return [path for path in (edge.folder / "state").rglob("*") if path.is_file() and b"anna" in path.read_bytes()]


def test_a_label_whose_last_clip_goes_leaves_the_model_with_all_that_names_it(edge):
    knows(edge, own(LabelMap(32), "anna", "yes"))
    edge("clips", "delete", "--yes", edge("clips", "--label", "anna").split()[0])
    assert labels(edge) == ("anna", "yes")  # it has another clip
    reported = edge("clips", "delete", "--yes", "--label", "anna", "--for-good")
    assert "'anna' has no clips any more: its name leaves the model" in reported
    assert labels(edge) == ("yes",)
    assert [found["label"] for found in edge.state.advice()] == ["yes"]
    edge("clips", "purge", "--yes")
    assert naming_anna(edge) == []
    assert not list((edge.folder / "state").rglob("*anna*"))


def test_a_label_of_the_fleet_takes_the_fleets_name(edge):
    label_map = own(LabelMap(32), "anna", "bo").link(0, "c7").link(1, "c8")
    knows(edge, label_map)
    public_set = PublicSet(
        SETTINGS,
        (ClassInfo("c7", "siren"),),
        np.zeros((1, *SETTINGS.shape), np.float32),
        np.zeros(1, np.int64),
        np.zeros(1, np.bool_),
    )
    path = edge.state.blobs.path(digest(public_set.pack()))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(public_set.pack())
    edge("clips", "delete", "--yes", "--label", "anna")
    edge("clips", "delete", "--yes", "--label", "bo")
    found = edge.state.model.load(load_config(edge.config).model.bundle).progress.label_map
    assert [(slot.name, slot.class_id) for slot in found.slots] == [("siren", "c7"), ("c8", "c8")]


def test_a_label_is_forgotten_after_a_training_that_is_under_way(edge):
    knows(edge, own(LabelMap(32), "anna", "yes"))
    training = edge.state.lock("training")
    try:
        reported = edge("clips", "delete", "--yes", "--label", "anna")
        assert "once the present training has ended" in reported
        assert labels(edge) == ("anna", "yes")
    finally:
        os.close(training)
    assert forget_noted(load_config(edge.config), edge.state)
    assert labels(edge) == ("yes",)
    assert edge.state.database.note("forgotten") is None


@pytest.mark.slow
def test_deleting_asks_and_says_how_to_undo_it(edge):
    knows(edge, own(LabelMap(32), "anna", "yes"))
    assert "say --yes" in edge("clips", "delete", "--label", "anna", status=1)
    status, out, errors = edge.answered(b"n\n", "clips", "delete", "--label", "anna")
    assert (status, out) == (130, "")
    assert "delete 2 clips of 'anna'? [y/N]" in errors
    status, out, _ = edge.answered(b"y\n", "clips", "delete", "--label", "anna")
    assert status == 0
    assert "2 clips deleted; `auricle-edge clips undo` brings them back for 7 days" in out


def test_deleted_clips_go_for_good_after_a_week_and_keep_their_names_until_then(edge, monkeypatch):
    recordings = edge.folder / "own"
    recordings.mkdir()
    edge.config.write_text(edge.config.read_text() + '[recordings]\nfolder = "own"\n')
    write_clips(recordings, "yes", 2, seed=1)
    names = sorted(path.name for path in (recordings / "yes").iterdir())  # they name their speakers
    edge("clips", "delete", "--yes", "--label", "yes")
    assert not (recordings / "yes").exists()
    edge("clips", "undo")
    assert sorted(path.name for path in (recordings / "yes").iterdir()) == names
    edge("clips", "delete", "--yes", "--label", "yes")
    store, now = Teaching.open(edge.config).store, time.time()
    for days, removed in ((6.9, 0), (7.1, 2)):
        monkeypatch.setattr(time, "time", lambda days=days: now + days * 86_400)
        assert empty_deleted(store, edge.state) == removed
    assert "nothing to undo" in edge("clips", "undo", status=1)


def test_a_name_is_taken_back_with_all_that_moved_and_a_clip_that_both_had_stays(edge):
    knows(edge, own(LabelMap(32), "anna", "yes"))
    clips = edge.folder / "state" / "clips"
    shared = next((clips / "anna").glob("*.wav"))
    (clips / "yes" / shared.name).write_bytes(shared.read_bytes())
    for label, seed in (("anna", 7), ("yes", 8)):
        (clips / "_not_" / label).mkdir(parents=True)
        (clips / "_not_" / label / f"{seed}.wav").write_bytes(shared.read_bytes())
    before = sorted(path.relative_to(clips) for path in clips.rglob("*.wav"))
    edge("clips", "relabel", "--label", "anna", "yes")
    assert len(list((clips / "yes").glob("*.wav"))) == 4 - 1 + 1
    assert not (clips / "anna").exists()
    # What was said not to be the one may well be the other, which is the same now: it is no counter-example of it.
    assert not (clips / "_not_" / "yes").exists()
    assert "taken back: anna was renamed to yes, 2 clips" in edge("clips", "undo")
    assert sorted(path.relative_to(clips) for path in clips.rglob("*.wav")) == before
    edge("clips", "relabel", "--label", "anna", "bell")
    assert (clips / "_not_" / "bell" / "7.wav").exists()
    edge("clips", "delete", "--yes", "--label", "yes")
    assert "taken back: yes was deleted" in edge("clips", "undo")
    edge("clips", "undo")
    assert sorted(path.relative_to(clips) for path in clips.rglob("*.wav")) == before
    assert "taken back: 4 recordings of anna, yes were added" in edge("clips", "undo")
    assert "nothing to undo" in edge("clips", "undo", status=1)


def test_what_was_deleted_for_good_or_purged_is_named_nowhere(edge):
    knows(edge, own(LabelMap(32), "yes"))
    for former, label in (("yes", "anna"), ("anna", "bo"), ("bo", "yes")):
        edge("clips", "relabel", "--label", former, label)
    edge("clips", "purge", "--yes")
    assert naming_anna(edge) == []
    assert "nothing to undo" in edge("clips", "undo", status=1)
    edge("clips", "relabel", "--label", "yes", "anna")
    edge("clips", "delete", "--yes", "--label", "anna", "--for-good")
    assert naming_anna(edge) == []


# Ctrl-C is pressed when the fifth clip is stored.
INTERRUPTED = """
import os, signal, sys
from edge_client.cli import main
from edge_client.clips.store import ClipStore
added = []
def add(store, *clip, add=ClipStore.add):
    added.append(add(store, *clip))
    if len(added) == 5:
        os.kill(os.getpid(), signal.SIGINT)
    return added[-1]
ClipStore.add = add
sys.exit(main())
"""


def test_an_import_that_is_interrupted_keeps_what_it_has_and_goes_on_later(edge):
    recordings = edge.folder / "recordings"
    write_clips(recordings, "yes", 9, seed=1)
    command = [sys.executable, "-c", INTERRUPTED, "import", recordings, "--config", edge.config]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 130, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
    assert "Interrupted; the same command goes on from there." in ended.stdout
    assert len(list((edge.folder / "state" / "clips" / "yes").glob("*.wav"))) == 5
    assert "5 were there already" in edge("import", recordings)


def test_a_label_is_listened_for_or_not_at_its_hours_and_keeps_that_under_another_name(edge):
    write_clips(edge.folder / "more", "yes", 3, seed=1, name="süße <b>Tür")
    edge("import", edge.folder / "more")
    assert edge("clips", "listen") == "every label is listened for at all hours\n"
    assert edge("clips", "listen", "süße <b>Tür", "--off") == "'süße <b>Tür': you switched it off\n"
    edge("clips", "listen", "süße <b>Tür", "--hours", "07:00-22:00", "23:00-01:00")
    edge("clips", "relabel", "--label", "süße <b>Tür", "doorbell")
    shown = {"doorbell": {"on": False, "hours": ["07:00-22:00", "23:00-01:00"]}}
    assert json.loads(edge("clips", "listen", "--json")) == shown
    assert "its hours are 07:00-22:00, 23:00-01:00" in edge("clips", "listen", "doorbell", "--on")
    assert "at all hours" in edge("clips", "listen", "doorbell", "--hours")
    assert edge.state.choices.listened() == {}
    for bad, said in (("7-22", "'7-22' is not"), ("07:00-07:00", "begin and end at once"), ("x" * 500, "must be like")):
        refused = edge("clips", "listen", "doorbell", "--hours", bad, status=1)
        assert said in refused
        assert len(refused) < 300
    for nobody in ("bell", "../doorbell", "", "a\x1b[2J"):
        refused = edge("clips", "listen", nobody, "--off", status=1)
        assert "no sound is called" in refused
        assert refused.removesuffix("\n").isprintable()
    edge("clips", "listen", "doorbell", "--off")
    edge("clips", "delete", "--label", "doorbell", "--yes", "--for-good")
    assert edge.state.choices.listened() == {}


@pytest.mark.parametrize(("arguments", "listed"), [((), "yes"), (("--label", "yes"), "00010000_nohash_0")])
def test_clips_that_are_deleted_while_they_are_listed_end_nothing(edge, monkeypatch, arguments, listed):
    folder = edge.folder / "state" / "clips"
    write_clips(folder, "yes", 2, seed=1)
    length_of = recordings.duration_s

    def deleted_after(path):
        seconds = length_of(path)
        for clip in (folder / "yes").glob("*.wav"):
            clip.unlink()
        return seconds

    monkeypatch.setattr(recordings, "duration_s", deleted_after)
    assert listed in edge("clips", *arguments)
