"""`auricle-edge events`: past events from the journal that the daemon writes."""

import json
import time

import numpy as np

from edge_client.clips.unknown_clips import DetectedClips
from edge_client.config.sections import ClipsConfig
from edge_client.events import Event
from edge_client.events.journal import Journal, past_events
from tests.support.edge_process import wait_for


def test_past_events_are_listed_chosen_and_forgotten_while_the_journal_is_in_use(edge):
    assert "nothing was heard" in edge("events")
    journal = Journal(edge.state.database)
    now = time.time()
    heard = [Event(now - 60.0 * age, "detected", label, None, 0.9, -20.0) for age, label in ((300, "a"), (90, "b"))]
    heard += [Event(now - 1800.0 * number, "detected", "c", "c7", 0.8, -30.0) for number in (1, 0)]
    for event in heard:
        journal.publish(event)
    wait_for(lambda: len(past_events(edge.state.database, 9)) >= 4, what="the journal")
    assert json.loads(edge("events", "--json")) == [event.to_json() for event in heard]
    assert [event["label"] for event in json.loads(edge("events", "--json", "--since", "2h"))] == ["b", "c", "c"]
    for same in ("120m", "120min", "7200s"):
        assert len(json.loads(edge("events", "--json", "--since", same))) == 3
    assert [event["label"] for event in json.loads(edge("events", "--json", "--count", "1"))] == ["c"]
    assert edge("events", "--label", "a").count("score 0.90") == 1
    assert "is no time" in edge("events", "--since", "yesterday", status=1)
    assert "--count must be" in edge("events", "--count", "0", status=1)
    assert "--count must be" in edge("events", "--count", "9" * 25, status=1)
    assert "--since '0001-01-01' is no time" in edge("events", "--since", "0001-01-01", status=1)
    for option in ("--label", "--input", "--forget"):
        assert f"{option} '\\udcff' is no text in UTF-8" in edge("events", option, "\udcff", status=1)
    assert [event["label"] for event in json.loads(edge("events", "--json", "--since", "2h", "--until", "1h"))] == ["b"]
    first, *rows = edge("events", "--csv", "--label", "c").splitlines()
    assert first.startswith("time,kind,label,")
    assert [row.split(",")[2] for row in rows] == ["c", "c"]
    kept = DetectedClips(edge.folder / "state" / "detected", ClipsConfig(detected_count=10, detected_days=1), 16_000)
    for event in heard:
        kept.add(event.time, event.score, np.full(100, event.score, np.float32))
    assert "say --yes" in edge("events", "--forget", "a", status=1)
    assert edge("events", "--forget", "a", "--yes") == "1 events were removed\n"
    assert [event.label for event in past_events(edge.state.database, 9)] == ["b", "c", "c"]
    assert [kept.heard_at(event.time) is None for event in heard] == [True, False, False, False]
    assert "needs a label, or --since or --until" in edge("events", "--forget", "--yes", status=1)
    for less in (("--input", "hall"), ("--count", "1")):
        assert "leave it out" in edge("events", "--forget", "--since", "3h", "--yes", *less, status=1)
    assert edge("events", "--forget", "--since", "3h", "--until", "10m", "--yes") == "2 events were removed\n"
    assert [kept.heard_at(event.time) is None for event in heard] == [True, True, True, False]
    assert [event.label for event in past_events(edge.state.database, 9)] == ["c"]
    journal.close()
