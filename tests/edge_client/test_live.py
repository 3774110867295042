"""The live feed: what watchers get, that nobody makes the daemon wait, and that nothing is computed for nobody."""

import time

import numpy as np
import pytest

from edge_client.events import Event, Heard
from edge_client.live import BANDS, LiveFeed, LiveReader

RATE = 16_000
STANDING = {"kettle": (0.25, 0.7)}
EVENT = Event(1_700_000_000.25, "detected", "kettle", None, 0.9, -20.0)


@pytest.fixture
def feed(tmp_path):
    one = LiveFeed(tmp_path, RATE)
    yield one
    one.close()


def tone(hz, samples=RATE // 4):
    return (0.5 * np.sin(2 * np.pi * hz * np.arange(samples) / RATE)).astype(np.float32)


def connected(feed, folder):
    reader = LiveReader(folder)
    assert reader.read(0.01) is None  # the line is open before anything is said
    assert reader.connected
    assert feed.watched()
    return reader


def test_a_watcher_gets_levels_spectrum_scores_and_events(feed, tmp_path):
    assert not feed.watched()
    reader = connected(feed, tmp_path)
    feed.send(tone(1_000), STANDING, [Heard(EVENT, tone(1_000))], {"glass": 0.612, "clink": 0.3})
    moment = reader.read(5)
    assert list(moment.guesses.items()) == [("glass", 0.61), ("clink", 0.3)]
    assert moment.scores == {"kettle": 0.25}
    assert moment.thresholds == {"kettle": 0.7}
    assert moment.heard == (EVENT.to_json(),)
    assert moment.level_db == pytest.approx(-9.0, abs=0.1)
    assert len(moment.columns) == BANDS * len(moment.levels_db)
    assert abs(time.time() - moment.time) < 60
    reader.close()
    feed.send(tone(1_000), {}, [])
    assert not feed.watched()


def test_a_watcher_that_does_not_read_misses_hops_and_others_do_not(feed, tmp_path):
    slow, quick = connected(feed, tmp_path), connected(feed, tmp_path)
    for _ in range(1_000):
        feed.send(tone(1_000), STANDING, [])
        assert quick.read(5) is not None
    waiting = 0
    while slow.read(0.01) is not None:
        waiting += 1
    assert 0 < waiting < 1_000
    slow.close()
    quick.close()


def test_the_daemons_user_alone_may_watch_and_the_folder_may_lie_deep(tmp_path):
    deep = tmp_path / ("a" * 120) / ("b" * 120)
    deep.mkdir(parents=True)
    feed = LiveFeed(deep, RATE)
    assert (deep / "live.sock").stat().st_mode & 0o777 == 0o600
    connected(feed, deep).close()
    feed.close()
    assert not (deep / "live.sock").exists()


def test_a_watcher_outlives_the_daemon_and_finds_the_next_one(feed, tmp_path, monkeypatch):
    reader = connected(feed, tmp_path)
    feed.close()
    assert reader.read(1) is None
    assert not reader.connected
    runtime = tmp_path / "run"
    runtime.mkdir()
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(runtime))
    second = LiveFeed(tmp_path, RATE)
    assert (tmp_path / "live.sock").readlink() == runtime / "live.sock"
    assert reader.read(0.01) is None
    assert second.watched()
    reader.close()
    second.close()


def test_more_watchers_than_there_is_room_for_are_turned_away(feed, tmp_path):
    readers = [connected(feed, tmp_path) for _ in range(8)]
    ninth = LiveReader(tmp_path)
    ninth.read(0.01)
    assert feed.watched()
    feed.send(tone(1_000), {}, [])
    assert ninth.read(5) is None
    assert all(reader.read(5) is not None for reader in readers)
    for reader in (*readers, ninth):
        reader.close()
