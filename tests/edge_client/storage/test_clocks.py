"""A clock that was once ahead, or not set yet: order is that of arrival, and nothing is lost or kept for years."""

import os
import time

import numpy as np
import pytest

from edge_client.clips.folders import DELETED, Clip
from edge_client.clips.store import ClipStore
from edge_client.clips.unknown_clips import UnknownClips
from edge_client.config.sections import ClipsConfig
from edge_client.events import Event
from edge_client.events.journal import Journal, past_events
from edge_client.owner import Teaching
from edge_client.owner_changes import delete, empty_deleted, rename
from edge_client.owner_undo import changes, undo
from edge_client.storage.database import FILE, Database
from edge_client.storage.device_state import DeviceState
from edge_client.storage.owner_acts import Act, Move
from tests.support.asked_device import taught

RATE, DAY_S = 16_000, 86_400.0
NOW = time.time()
AHEAD, UNSET = NOW + 3650 * DAY_S, 60.0
WRONG = pytest.mark.parametrize("wrong", [AHEAD, UNSET], ids=["ahead", "1970"])


def window(seed):
    return np.random.default_rng(seed).uniform(-0.5, 0.5, 100).astype(np.float32)


@WRONG
def test_unknown_sounds_are_kept_in_the_order_in_which_they_came_and_expire(tmp_path, wrong, monkeypatch):
    ring = UnknownClips(tmp_path, ClipsConfig(unknown_count=3), RATE)
    monkeypatch.setattr(time, "time", lambda: wrong)
    for seed in range(3):
        ring.add(wrong + seed, 0.1, window(seed))
    for sound in ring.sounds():
        os.utime(sound.path, (wrong, wrong))
    monkeypatch.setattr(time, "time", lambda: NOW)
    for seed in (3, 4):
        ring.add(NOW + seed, 0.1, window(seed))
    assert [sound.heard_at for sound in ring.sounds()] == pytest.approx([NOW + 4, NOW + 3, wrong + 2], abs=0.01)
    ring.tidy(NOW + 6 * DAY_S)
    assert len(ring.sounds()) == 3
    ring.tidy(NOW + 8 * DAY_S)
    assert ring.sounds() == []


@WRONG
def test_events_are_listed_in_the_order_in_which_they_came_and_none_is_lost(tmp_path, wrong):
    database = Database(tmp_path / FILE)
    for moment, label in ((NOW - 2, "a"), (wrong, "b"), (NOW - 1, "c")):
        journal = Journal(database, days=30)
        journal.publish(Event(moment, "detected", label, None, 0.9, -20.0))
        journal.close()
    Journal(database, days=30).close()  # removes what is too old
    assert [event.label for event in past_events(database, 9)] == ["a", "b", "c"]
    assert [event.label for event in past_events(database, 1)] == ["c"]


@WRONG
def test_an_event_without_a_likely_time_goes_with_the_next_that_is_too_old(tmp_path, wrong):
    database = Database(tmp_path / FILE)
    journal = Journal(database, days=1000)
    for moment, label in ((wrong, "a"), (NOW - 40 * DAY_S, "b"), (wrong, "c"), (NOW, "d")):
        journal.publish(Event(moment, "detected", label, None, 0.9, -20.0))
    journal.close()
    Journal(database, days=30).close()
    assert [event.label for event in past_events(database, 9)] == ["c", "d"]


def test_undo_takes_the_newest_change_of_whatever_kind(tmp_path, monkeypatch):
    device = taught(tmp_path)
    config = device.folder / "edge.toml"
    store = Teaching.open(config).store

    def at(moment, action):
        monkeypatch.setattr(time, "time", lambda: moment)
        action(Teaching.open(config))

    at(AHEAD, lambda teaching: rename(teaching, store.clips("kettle"), "pot"))
    at(NOW, lambda teaching: delete(teaching, store.clips("bell")))
    newest = changes(Teaching.open(config))[0]
    assert newest.kind == "deleted"
    undo(Teaching.open(config), newest)
    at(AHEAD, lambda teaching: delete(teaching, store.clips("pot")))
    at(NOW, lambda teaching: delete(teaching, store.clips("bell")))
    assert [change.label for change in changes(Teaching.open(config))][:2] == ["bell", "pot"]


@WRONG
def test_what_was_deleted_goes_for_good_a_week_after_the_clock_was_right(tmp_path, wrong, monkeypatch):
    state, store = DeviceState(tmp_path), ClipStore(tmp_path / "clips", ClipsConfig(), RATE)
    clip = Clip("bell", store.add("bell", window(1), RATE)[0])
    store.relabel(clip, f"{DELETED}/bell")
    monkeypatch.setattr(time, "time", lambda: wrong)
    state.acts.add(Act("deleted", "bell", moves=(Move("bell", f"{DELETED}/bell", clip.path.name),)))
    for days, removed in ((0, 0), (6, 0), (8, 1)):
        monkeypatch.setattr(time, "time", lambda days=days: NOW + days * DAY_S)
        assert empty_deleted(store, state) == removed
    assert list((store.folder / DELETED).iterdir()) == []
