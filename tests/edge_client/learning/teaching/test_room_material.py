"""The room's sounds as negatives: never a label's own, judged once a night, and left out where they do harm."""

import dataclasses
import time

import numpy as np
import pytest

from edge_client.config.sections import LearningConfig
from edge_client.learning.teaching.head_material import Heard
from edge_client.learning.teaching.room_material import KnownRoom, judge_room, night_is_due, room_negatives, with_room
from edge_client.room.reservoir import Layout, Reservoir
from edge_client.room.store import write_sample
from edge_client.storage.database import ROOM_LEARNED
from edge_client.storage.device_state import DeviceState
from fleet_protocol.ready_bundles import find_bundle
from tests.support.sounds import write_clips
from tests.support.taught_device import Device

LAYOUT = Layout("front end", 64, 0.25, 2)
NIGHT, DAY = (time.mktime((2026, 1, 5, hour, 30, 0, 0, 0, -1)) for hour in (3, 12))


def room_of(rows, detected=(), denied=()):
    """A room in which each row was heard for two seconds."""
    clock = [0.0]
    found = Reservoir(LAYOUT, clock=lambda: clock[0], seed=0)
    for _ in range(2):
        found.look(None, 0.0)  # what comes before the first block
    for index, row in enumerate(rows):
        for hop in range(8):
            clock[0] = 1e9 + 10 * index
            found.look(row, 0.5, "yes" if index in detected and hop == 4 else "")
    return KnownRoom(found.sample(), LAYOUT, [(1e9 + 10 * index, "yes") for index in denied])


def among(rows, row):
    return any(np.allclose(one, row, atol=0.05) for one in rows)


def test_what_is_or_may_be_a_label_s_own_is_no_negative_unless_its_owner_denied_it(statistics):
    own = statistics.means[3]
    takes = {"yes": np.tile(own, (5, 8, 1))}
    others = statistics.means[[10, 12, 14]]
    rows = np.stack([*others, own, own + 0.01, own + 0.02])
    found = room_negatives(room_of(rows, detected={4, 5}, denied={5}), takes, statistics)
    assert all(among(found, row) for row in others)
    assert len(found) == 4
    assert among(found, own + 0.02)
    assert not len(room_negatives(room_of([]), takes, statistics))


def test_rows_are_kept_only_where_no_more_held_out_takes_are_missed_and_so_until_the_next_night(tmp_path):
    state = DeviceState(tmp_path / "state")
    heard = Heard({"yes": np.zeros((5, 8, 64), np.float32)}, np.zeros((0, 64)), np.zeros((0, 64)))
    rows, asked = np.ones((3, 64), np.float32), []

    def misses(with_it, without):
        def count(part, held_out):
            assert (len(part.takes["yes"]), len(held_out["yes"])) == (3, 2)
            asked.append(part.room is not None)
            return with_it if part.room is not None else without

        return count

    assert with_room(state, heard, rows, misses(0, 9)).room is None  # nobody judged yet
    assert asked == []
    judge_room(state, NIGHT)
    assert with_room(state, heard, rows, misses(2, 2)).room is rows
    assert sorted(asked) == [False, True]
    assert with_room(state, heard, rows, misses(9, 0)).room is rows  # taught in the day after
    judge_room(state, NIGHT)
    assert with_room(state, heard, rows, misses(3, 2)).room is None
    assert with_room(state, heard, rows, misses(0, 2)).room is None
    judge_room(state, NIGHT)

    def killed(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        with_room(state, heard, rows, killed)
    assert with_room(state, heard, rows, killed).room is None  # nobody judges again before the next night
    single = dataclasses.replace(heard, takes={"yes": heard.takes["yes"][:1]})
    judge_room(state, NIGHT)
    assert with_room(state, single, rows, misses(0, 2)).room is None  # nothing to judge by


def test_the_night_comes_once_and_only_where_something_is_known(tmp_path):
    device = Device(tmp_path, find_bundle("base"))
    config, state = device.config, device.state
    assert not night_is_due(config, state, NIGHT)
    write_sample(state.room_path, LAYOUT, Reservoir(LAYOUT).sample())
    assert not night_is_due(config, state, NIGHT)  # nothing was taught
    write_clips(device.clips, "yes", 2, seed=1)
    assert not night_is_due(config, state, DAY)
    assert not night_is_due(dataclasses.replace(config, learning=LearningConfig(room=False)), state, NIGHT)
    assert night_is_due(config, state, NIGHT)
    assert not night_is_due(config, state, NIGHT + 60)
    assert night_is_due(config, state, NIGHT + 86_400)
    assert state.database.note(ROOM_LEARNED)["judge"]
    with state.database.changing() as connection:
        connection.execute("UPDATE notes SET value = '{}'")  # damaged: not what the digest says
    assert night_is_due(config, state, NIGHT)
