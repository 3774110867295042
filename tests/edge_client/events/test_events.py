"""Events reach the journal, and standard output, whatever happens outside."""

import contextlib
import dataclasses
import json
import logging
import os
import pty
import re
import sqlite3
import stat
import subprocess
import sys
import threading
import time

import pytest

from edge_client.events import Event
from edge_client.events.delivery import Delivery
from edge_client.events.journal import Journal, past_events
from edge_client.events.json_lines import in_words
from edge_client.storage.database import FILE, Database
from tests.support.checkout import ROOT
from tests.support.edge_process import wait_for

NOW = time.time()


def event(number=0, **other):
    return dataclasses.replace(Event(NOW + number, "detected", f"label {number}", None, 0.75, -31.5), **other)


def test_an_event_s_json_has_a_readable_time():
    document = event(class_id="c1", time=1_700_000_000.1234).to_json()
    assert document == {
        "time": "2023-11-14T22:13:20.123Z",
        "kind": "detected",
        "label": "label 0",
        "class_id": "c1",
        "score": 0.75,
        "level_db": -31.5,
    }
    over = event(time=1_700_000_000.0, ended=1_700_000_012.5)
    assert over.lasted_s == 12.5
    assert over.to_json()["ended"] == "2023-11-14T22:13:32.500Z"
    assert over.to_end_json() == over.to_json() | {"kind": "ended"}


@pytest.fixture
def database(tmp_path):
    return Database(tmp_path / FILE)


def test_the_journal_notes_the_end_beside_the_event(database):
    journal = Journal(database)
    journal.publish(event(1))
    journal.publish(event(2))
    journal.follow(event(1))  # it goes on
    journal.follow(event(1, ended=NOW + 13))
    journal.close()
    assert [one.lasted_s for one in past_events(database, 9)] == [12.0, None]


def test_the_journal_gives_the_newest_events_while_it_is_written_and_afterwards(database, tmp_path):
    before = os.umask(0)
    try:
        journal = Journal(database)
    finally:
        os.umask(before)
    for number in range(5):
        journal.publish(event(number))
    wait_for(lambda: len(past_events(database, 9)) == 5)
    assert past_events(database, 2) == [event(3), event(4)]
    files = sorted(tmp_path.iterdir())
    assert len(files) == 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}  # its user's alone
    journal.close()
    assert past_events(database, 1) == [event(4)]


def test_the_journal_stays_within_its_size_and_keeps_the_newest(database, tmp_path):
    journal = Journal(database, megabytes=1)
    connection = sqlite3.connect(database.path)
    rows = [(NOW + n, "detected", "x" * 2000, None, 0.5, -30.0) for n in range(2000)]
    connection.executemany(
        "INSERT INTO events (time, kind, label, class_id, score, level_db, input) VALUES (?, ?, ?, ?, ?, ?, '')", rows
    )
    connection.commit()
    connection.close()
    assert database.path.stat().st_size > 4e6
    journal.close()
    journal = Journal(database, megabytes=1)
    kept = past_events(database, 10_000)
    assert 100 < len(kept) < 500
    assert kept[-1].time == NOW + 1999
    journal.close()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 1e6


def test_a_journal_whose_writer_is_killed_holds_every_event_that_was_written(database):
    code = """
import sys, time
from pathlib import Path
from edge_client.events import Event
from edge_client.events.journal import Journal, past_events
from edge_client.storage.database import Database
database = Database(Path(sys.argv[1]))
journal = Journal(database)
shown = 0
for number in range(100_000):
    journal.publish(Event(time.time(), "detected", str(number), None, 0.5, -30.0))
    written = -1
    while written < number - 100:  # of more, some would be dropped where the disk is slow
        time.sleep(0.001)
        for newest in past_events(database, 1):
            written = int(newest.label)
            print(written, flush=True)
"""
    writer = subprocess.Popen([sys.executable, "-c", code, str(database.path)], stdout=subprocess.PIPE, cwd=ROOT)
    last = next(int(line) for line in writer.stdout if int(line) >= 40)
    writer.kill()
    last = max([last, *map(int, writer.stdout.read().split())])
    writer.wait()
    writer.stdout.close()
    assert sqlite3.connect(database.path).execute("PRAGMA integrity_check").fetchone() == ("ok",)
    journal = Journal(database)
    labels = [int(one.label) for one in past_events(database, 1_000_000)]
    assert labels == list(range(len(labels)))
    assert labels[-1] >= last
    journal.publish(event())
    wait_for(lambda: event() in past_events(database, 1_000_000))
    journal.close()


WRITER = """
import sys, time
from edge_client.events import Event
from edge_client.events.json_lines import JsonLines
sink = JsonLines(sys.stdout)
for number in range(int(sys.argv[1])):
    sink.publish(Event(1.7e9, "unknown", "unknown", None, 0.25, -30.0))
    sink.follow(Event(1.7e9, "detected", "hoover", None, 0.9, -30.0))
    time.sleep(0.01)
    if number == 0 and sys.argv[2:]:
        sys.stdin.readline()
sink.follow(Event(1.7e9, "detected", "hoover", None, 0.9, -30.0, 1.7e9 + 60))
sink.close()
print("done", file=sys.stderr)
"""


def test_standard_output_gets_a_line_for_every_event():
    result = subprocess.run([sys.executable, "-c", WRITER, "3"], capture_output=True, text=True, check=True, cwd=ROOT)
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["kind"] for line in lines] == ["unknown"] * 3 + ["ended"]


def test_at_a_terminal_events_are_said_in_words():
    terminal, other = pty.openpty()
    subprocess.run([sys.executable, "-c", WRITER, "1"], stdout=other, stderr=subprocess.DEVNULL, check=True, cwd=ROOT)
    os.close(other)
    said = ""
    with contextlib.suppress(OSError):  # the terminal is closed
        while part := os.read(terminal, 10_000):
            said += part.decode()
    os.close(terminal)
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d  heard a sound that it does not know\s+\d\d:\d\d:\d\d  hoover is over, after 60 s\s+", said
    )
    heard = Event(1.7e9, "detected", "stop", None, 0.97, -30.0, input="kitchen")
    assert in_words(heard.to_json())[8:] == "  heard stop  (97 %)  in kitchen"
    unknown = Event(1.7e9, "unknown", "unknown", None, 0.2, -30.0, guess="glass, clink")
    assert in_words(unknown.to_json())[8:] == "  heard a sound that it does not know: perhaps glass, clink"


def test_a_reader_that_goes_away_ends_nothing():
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", WRITER, "30", "waits after the first"]
    writer = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=ROOT)
    assert b"unknown" in writer.stdout.readline()
    writer.stdout.close()
    writer.stdin.close()
    message = writer.stderr.read().decode()
    writer.stderr.close()
    assert writer.wait() == 0
    assert message.count("nobody reads events") == 1
    assert message.endswith("done\n")
    assert "Traceback" not in message


def test_a_slow_receiver_costs_dropped_items_and_never_time(caplog):
    caplog.set_level(logging.WARNING)
    received, go = [], threading.Event()

    def slow(item):
        received.append(item)
        go.wait(180)

    delivery = Delivery("something slow", slow, capacity=2)
    for number in range(50):
        delivery.put(number)
    assert delivery.dropped >= 47
    go.set()
    assert delivery.close(180.0)
    assert received == sorted(set(received))  # which ones were dropped is a matter of time
    assert len(received) <= 3
    assert caplog.text.count("too slow") == 1
