"""Whatever an owner did is in one list, the newest first, and can be taken back: takes, files, words, choices."""

import json
import time

import numpy as np
import pytest

from edge_client.clips.recorder import Takes
from edge_client.clips.unknown_clips import DetectedClips, UnknownClips
from edge_client.errors import ClipError
from edge_client.owner_changes import delete, purge, rename, say, tune
from edge_client.owner_undo import changes, undo
from edge_client.storage.owner_acts import Act
from edge_client.storage.owner_choices import read_wrong_detections
from tests.support.asked_device import Owner, sound
from tests.support.sounds import RATE, write_clips


class Doing(Owner):
    """An owner who does things, and looks at the list of what he did."""

    def words(self):
        return [change.words for change in changes(self.teaching)]

    def names(self, folder):
        return {path.name for path in (self.device.clips / folder).glob("*.wav")}

    def heard(self, kind, at, seed=0):
        """Let the device keep a sound that it heard."""
        rings = {"unknown": UnknownClips, "detected": DetectedClips}
        ring = rings[kind](self.device.state.folder / kind, self.device.config.clips, RATE)
        ring.add(at, 0.9, sound("up", seed))
        return ring.heard_at(at)

    def record(self, label, count):
        takes = Takes(self.teaching.store, self.device.state.acts, label, RATE)
        for seed in range(count):
            takes.keep(sound("down", seed))
        return takes


@pytest.fixture
def owner(tmp_path):
    return Doing(tmp_path, clips="detected_count = 5")


@pytest.mark.parametrize(
    ("kind", "heard_as", "folder", "words"),
    [
        ("detected", "kettle", "kettle", "kettle was heard; you said: yes"),
        ("detected", "kettle", "bell", "kettle was heard; you said: bell"),
        ("detected", "kettle", "_not_/kettle", "kettle was heard; you said: that was wrong"),
        ("unknown", "", "cup", "an unknown sound was named cup"),
    ],
)
def test_a_word_about_what_was_heard_is_taken_back_and_the_sound_waits_again(owner, kind, heard_as, folder, words):
    at = round(time.time() - 60, 3)
    kept, before = owner.heard(kind, at), owner.names(folder)
    wrong = [(at, heard_as)] if heard_as and folder != heard_as else []
    say(owner.teaching, folder, [kept], heard_as, [(kind, round(1e3 * at))], wrong)
    assert owner.words() == [words]
    assert len(owner.names(folder)) == len(before) + 1
    assert not kept.path.exists()
    assert read_wrong_detections(owner.device.state.database) == wrong
    assert owner.undo() == 1
    assert owner.names(folder) == before
    assert kept.path.exists()
    assert read_wrong_detections(owner.device.state.database) == []
    assert owner.words() == []


def test_a_sound_that_is_kept_no_more_can_be_had_back_all_the_same(owner):
    at = round(time.time() - 60, 3)
    kept = owner.heard("detected", at)
    say(owner.teaching, "kettle", [kept], "kettle", [("detected", round(1e3 * at))])
    owner.teaching.detected.switch(on=False)
    assert owner.undo() == 1
    assert not kept.path.exists()
    assert owner.words() == ["1 clip of kettle was taken back"]


def test_takes_are_taken_back_together_and_an_undo_can_be_undone(owner, edge):
    edge.config = owner.config
    before = owner.names("kettle")
    owner.record("kettle", 3)
    rename(owner.teaching, owner.teaching.store.clips("bell"), "chime")
    assert owner.words() == ["bell was renamed to chime, 6 clips", "3 takes of kettle were recorded"]
    edge("clips", "undo")
    assert "taken back: 3 takes of kettle were recorded" in edge("clips", "undo")
    assert owner.names("kettle") == before
    assert "nothing to undo" in edge("clips", "undo", status=1)  # and what was taken back is not had back by mistake
    (listed,) = json.loads(edge("clips", "undo", "--list", "--json"))
    assert listed["what"] == "3 clips of kettle were taken back"
    edge("clips", "undo", listed["number"])
    assert len(owner.names("kettle")) == len(before) + 3
    assert "of number 77" in edge("clips", "undo", 77, status=1)


def test_one_take_of_a_session_is_discarded_and_one_that_was_there_before_stays(owner):
    store = owner.teaching.store
    shared = store.add("whistle", sound("down", 1), RATE)[0].name
    takes = owner.record("whistle", 3)
    takes.discard(3)
    takes.discard(2)
    assert len(owner.names("whistle")) == 2
    assert shared in owner.names("whistle")
    assert owner.words() == ["1 take of whistle was recorded"]
    owner.undo()
    assert owner.names("whistle") == {shared}


def test_imported_files_and_single_clips_are_taken_back(owner, edge):
    edge.config = owner.config
    write_clips(owner.device.folder / "files", "stop", 4, seed=9, name="cup")
    edge("import", owner.device.folder / "files")
    one = owner.teaching.store.clips("cup")[0]
    delete(owner.teaching, [one])
    edge("clips", "relabel", owner.teaching.store.clips("cup")[0].clip_id, "kettle")
    assert owner.words() == [
        "1 clip of cup was moved to kettle",
        "1 clip of cup was deleted",
        "4 recordings of cup were added",
    ]
    for _ in range(3):
        edge("clips", "undo")
    assert owner.names("cup") == set()
    assert len(owner.names("kettle")) == 6


def test_choices_are_taken_back_and_a_slider_that_is_moved_again_is_one_change(owner):
    choices = owner.device.state.choices
    choices.set_threshold("kettle", 0.7)
    for threshold in (0.8, 0.9):
        tune(owner.teaching, "kettle", threshold)
    assert owner.words() == ["the sensitivity to kettle was changed"]
    owner.undo()
    assert choices.thresholds() == {"kettle": 0.7}


def test_what_was_done_before_this_release_can_be_taken_back(owner):
    """Renamings and deletions had a list of moves alone."""
    clip = owner.teaching.store.clips("kettle")[0]
    owner.teaching.store.relabel(clip, "_deleted_/kettle")
    with owner.device.state.database.changing() as connection:
        connection.execute(
            "INSERT INTO renamings (number, at, former, label, moves) VALUES (1, ?, 'kettle', '', ?)",
            (time.time(), json.dumps([["kettle", "_deleted_/kettle", clip.path.name, False]])),
        )
    assert owner.words() == ["kettle was deleted, 1 clip"]
    assert owner.undo() == 1
    assert clip.path.exists()


def test_what_is_purged_or_forgotten_is_named_nowhere(owner):
    owner.record("anna", 2)
    delete(owner.teaching, owner.teaching.store.clips("anna"), for_good=True)
    assert owner.words() == []
    owner.record("bo", 2)
    purge(owner.teaching)
    assert owner.words() == []
    rows = owner.device.state.database.rows("SELECT former || label || moves FROM renamings")
    assert rows == []


def test_an_act_that_is_gone_is_refused(owner):
    owner.record("anna", 1)
    (change,) = changes(owner.teaching)
    undo(owner.teaching, change)
    with pytest.raises(ClipError, match="was undone already"):
        undo(owner.teaching, change)


def test_the_newest_five_hundred_are_kept(owner):
    acts = owner.device.state.acts
    with owner.device.state.database.changing() as connection:
        row = "INSERT INTO renamings (number, at, former, label, moves) VALUES (?, 1.8e9, 'a', 'b', '[]')"
        connection.executemany(row, [(number,) for number in range(1, 600)])
    acts.add(Act("tuned", label="kettle"))
    assert [act.number for act in acts.all()] == list(np.arange(600, 100, -1))
