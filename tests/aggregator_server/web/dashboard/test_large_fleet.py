"""Lists of a large fleet: every device stands on one page, indices answer the queries, and what is asked is bounded."""

import random
from urllib.parse import parse_qsl, urlsplit

import pytest
from sqlalchemy import event, insert

from aggregator_server.fleet import health
from aggregator_server.fleet.audit import list_entries
from aggregator_server.fleet.devices import devices_called, list_devices
from aggregator_server.store.tables import DeviceRow, ReputationRow
from aggregator_server.web.dashboard import fleet as pages
from aggregator_server.web.dashboard.fleet import Wanted, find_page

NOW = 2_000_000.0
COUNT = 430


def row(number, rng):
    return {
        "device_id": f"{rng.getrandbits(128):032x}",
        "secret_hash": f"{number:064x}",
        "name": rng.choice(["Küche", "attic", "100%", "a_c", "abc"]) + f" {number % 90}",
        "architecture": rng.choice(["CNN1", "linear"]),
        "features": {},
        "features_digest": "",
        "labels": [f"kettle {number}"],
        "clips": number % 7,
        "enrolled_at": float(number // 10),
        "seen_at": NOW - rng.choice([10.0, 20.0, 5_000.0]),
        "revoked_at": NOW if rng.random() < 0.1 else None,
        "waiting": rng.random() < 0.1,
        "trouble": "no memory" if rng.random() < 0.1 else None,
        "group_name": rng.choice([None, "school", "home"]),
        "versions": rng.choice([None, {"program": "0.0.9"}, {"program": "0.0.10"}, {"program": "99.0"}]),
    }


@pytest.fixture
def large(fleet, monkeypatch):
    """A fleet of many pages."""
    monkeypatch.setattr(pages, "PAGE", 20)
    rng = random.Random(4)
    rows = [row(number, rng) for number in range(COUNT)]
    with fleet.store.writing() as session:
        session.execute(insert(DeviceRow), rows)
        held = [
            {"device_id": found["device_id"], "counted": 0, "screened": 0, "refused": 0, "suspicion": number % 3}
            | {"quarantined_at": NOW if number % 5 == 0 else None}
            for number, found in enumerate(rows[::4])
        ]
        session.execute(insert(ReputationRow), held)
    return fleet.store


def all_pages(store, wanted, between=lambda: None):
    found = []
    while wanted is not None:
        fields = dict(parse_qsl(urlsplit(wanted.address()).query))  # as a browser sends them back
        listed, wanted = find_page(store, Wanted.of(**fields), NOW)
        assert len(listed) == 20 or wanted is None
        found += listed
        between()
    assert len(found) == len({device.device_id for device, _ in found})
    return found


def named(store, word):
    return {device.name for device, _ in all_pages(store, Wanted.of(search=word))}


@pytest.mark.parametrize("state", pages.STATES)
def test_a_state_lists_the_devices_that_are_in_it(large, state):
    conditions = {
        "online": lambda device: device.revoked_at is None and NOW - device.seen_at.timestamp() <= health.SEEN_S,
        "outdated": lambda device: device.outdated and device.revoked_at is None,
    }
    wanted = conditions.get(state, lambda device: health.health_of(device, NOW) == state)
    found = {device.device_id for device, _ in all_pages(large, Wanted.of(state=state))}
    assert found == {device.device_id for device in list_devices(large) if wanted(device)} != set()


def test_devices_that_enrol_meanwhile_push_none_off_the_pages(large):
    before = {device.device_id for device in list_devices(large)}
    rng = random.Random(5)
    numbers = iter(range(10_000, 20_000))

    def enrol():
        with large.writing() as session:
            session.execute(insert(DeviceRow), [row(next(numbers), rng) for _ in range(3)])

    names = [device.name for device, _ in all_pages(large, Wanted.of())]
    assert len(names) == COUNT + 4
    assert names == sorted(names, key=str.lower)
    found = {device.device_id for device, _ in all_pages(large, Wanted.of(), enrol)}
    assert before <= found
    listed, after = [], None
    while part := list_devices(large, after, 50):
        listed += [device.device_id for device in part]
        after = listed[-1]
        if len(listed) < 300:
            enrol()
    assert len(listed) == len(set(listed)) > COUNT


def test_a_word_is_part_of_a_name_or_identifier_and_wildcards_mean_themselves(large):
    everybody = {device.name for device in list_devices(large)}
    for word in ("TTIC", "%", "a_c", "0%", "üche 8"):
        assert named(large, word) == {name for name in everybody if word.lower() in name.lower()} != set()
    device_id = list_devices(large)[-1].device_id
    listed, _ = find_page(large, Wanted.of(search=device_id[3:].upper()), NOW)
    assert [device.device_id for device, _ in listed] == [device_id]


def test_what_strangers_write_into_an_address_finds_only_what_is_called_so(large):
    for text in ("' OR 1=1 --\0\U0010ffff", "\U0010ffff", "\ud7ff", "x" * 5_000, "0" * 32, "\\", "%%", "__"):
        assert find_page(large, Wanted.of(search=text), NOW) == ((), None)
        assert find_page(large, Wanted.of(after=text), NOW) == ((), None)
    assert find_page(large, Wanted.of(state="' OR 1=1 --"), NOW) == find_page(large, Wanted.of(), NOW)
    assert len(list_devices(large)) == COUNT + 4


def test_an_index_answers_every_query_of_a_page(large):
    asked = []
    event.listen(large.database.engine, "before_cursor_execute", lambda *told: asked.append(told[2:4]))
    _, second = find_page(large, Wanted.of(), NOW)
    find_page(large, second, NOW)
    for state in pages.STATES:
        find_page(large, Wanted.of(state=state), NOW)
    with large.reading() as session:
        health.count_health(session, NOW)
        health.count_outdated(session)
    list_devices(large, list_devices(large, limit=1)[0].device_id, 5)
    devices_called(large, "attic 3")
    list_entries(large, 9, 5, "signed_in")
    plans = []
    with large.reading() as session:
        for statement, parameters in asked:
            if statement.startswith(("SELECT", "WITH")):
                rows = session.connection().exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
                plans += [(step[3], statement) for step in rows]
    assert len(plans) > 50
    tables = ("devices", "audit", "conduct", "participants")
    scans = [plan for plan in plans if plan[0] in {f"SCAN {table}" for table in tables}]
    assert scans == []
    ordered = [plan for plan in plans if "TEMP B-TREE FOR ORDER BY" in plan[0] and "FROM devices" in plan[1]]
    assert [statement for _, statement in ordered if "LIMIT" not in statement] == []


def test_counts_are_those_of_the_devices_one_by_one(large):
    devices = list_devices(large)
    with large.reading() as session:
        counted = health.count_health(session, NOW)
        words = [health.health_of(device, NOW) for device in devices]
        assert {word: getattr(counted, word) for word in health.HEALTH} == {
            word: words.count(word) for word in health.HEALTH
        }
        assert health.count_outdated(session) == sum(device.outdated for device in devices)
