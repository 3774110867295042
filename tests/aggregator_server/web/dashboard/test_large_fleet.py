"""Lists of a large fleet: every device stands on one page, indices answer the queries, and what is asked is bounded."""

import json
import random
import time
from urllib.parse import parse_qsl, urlsplit

import pytest
from sqlalchemy import event, insert

from aggregator_server.fleet import health
from aggregator_server.fleet.audit import SERVER, Actor, Sought, audit, find_entries
from aggregator_server.fleet.devices import devices_called, list_devices
from aggregator_server.store.tables import DeviceRow, ReputationRow, table_of
from aggregator_server.web.dashboard import fleet_search
from aggregator_server.web.dashboard.fleet_list import SORTS, Place, Wanted
from aggregator_server.web.dashboard.fleet_search import search

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
    """A fleet that is large by the bounds that the search then has."""
    monkeypatch.setattr(fleet_search, "EXACT", 20)
    monkeypatch.setattr(fleet_search, "WALK", 60)
    monkeypatch.setattr(fleet_search, "_FIRST", 15)
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
    found, pages = [], 0
    while wanted is not None:
        page = search(store, Wanted.of(**fields_of(wanted)), NOW)
        found += [(device.device_id, word) for device, word in page.devices]
        wanted = page.next
        pages += 1
        assert pages < 100
        between()
    return found


def fields_of(wanted):
    """The fields of an address, as a browser sends them back."""
    fields = dict(parse_qsl(urlsplit(wanted.address()).query))
    return fields | {"page": int(fields.get("page", 1))}


def exactly(store, monkeypatch, wanted):
    """The same list as a small fleet has it."""
    monkeypatch.setattr(fleet_search, "EXACT", 10_000)
    found = all_pages(store, wanted)
    monkeypatch.setattr(fleet_search, "EXACT", 20)
    return found


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("order", ["", "down"])
def test_every_device_stands_on_one_page_in_every_order(large, monkeypatch, sort, order):
    wanted = Wanted.of(sort=sort, order=order, page=1)
    found = all_pages(large, wanted)
    assert len(found) == len(set(found)) == COUNT + 4
    expected = exactly(large, monkeypatch, wanted)
    assert set(found) == set(expected)
    if sort == "health":
        assert [word for _, word in found] == [word for _, word in expected]
    if sort in ("clips", "seen"):
        devices = {device.device_id: device for device in list_devices(large)}
        key = {"clips": lambda it: it.clips, "seen": lambda it: it.seen_at}[sort]
        values = [key(devices[device_id]) for device_id, _ in found]
        assert values == sorted(values, reverse=order == "down")


@pytest.mark.parametrize(
    "asked",
    [
        {"state": state}
        for state in ("online", "silent", "waiting", "quarantine", "trouble", "outdated", "well", "revoked")
    ]
    + [{"group": "school", "state": "well"}, {"network": "cnn1"}, {"version": "0.0.10", "sort": "version"}]
    + [{"search": "KÜ", "sort": "seen"}, {"search": "attic", "sort": "name", "order": "down"}, {"search": "100%"}],
    ids=str,
)
def test_what_is_looked_for_in_a_large_fleet_is_all_that_there_is(large, monkeypatch, asked):
    wanted = Wanted.of(**asked, page=1)
    found = all_pages(large, wanted)
    assert len(found) == len(set(found)) > 5
    assert set(found) == set(exactly(large, monkeypatch, wanted))


def test_devices_that_enrol_meanwhile_push_none_off_the_pages(large):
    before = {device.device_id for device in list_devices(large)}
    rng = random.Random(5)
    numbers = iter(range(10_000, 20_000))

    def enrol():
        with large.writing() as session:
            session.execute(insert(DeviceRow), [row(next(numbers), rng) for _ in range(3)])

    found = [device_id for device_id, _ in all_pages(large, Wanted.of(sort="name", page=1), enrol)]
    assert len(found) == len(set(found))
    assert before <= set(found)
    listed, after = [], None
    while part := list_devices(large, after, 50):
        listed += [device.device_id for device in part]
        after = listed[-1]
        if len(listed) < 300:
            enrol()
    assert len(listed) == len(set(listed)) > COUNT


def test_wildcards_of_a_search_mean_themselves(large):
    for word in ("%", "_", "a_", "100%"):
        page = search(large, Wanted.of(search=word, page=1), NOW)
        assert all(device.name.lower().startswith(word) for device, _ in page.devices)
    assert search(large, Wanted.of(search="%ttic", page=1), NOW).devices == ()


def test_a_place_that_is_none_is_the_first_page(large):
    nobody = "0" * 32
    nothing = ["", "x", "[]", "[" * 9_000, "null", '{"a": 1}', '["name", "x"]', '["name", "x", "not hex"]']
    keys = ["NaN", "1e999", str(10**30), '"\\ud800"', '"\\u0000"', "true", "[1]"]
    first = search(large, Wanted.of(sort="name", page=1), NOW).devices
    for after in (*nothing, *(f'["name", {key}, "{nobody}"]' for key in keys)):
        assert Place.of(after) is None
        assert search(large, Wanted.of(sort="name", after=after, page=1), NOW).devices == first


def test_what_strangers_write_into_an_address_finds_only_what_is_called_so(large):
    for label in ("name", "1 OR 1=1", "is '; DROP TABLE devices; --", "well"):
        for key in ("x' OR 1=1 --", 2.0**53, -1, None, "\U0010ffff" * 200):
            hostile = Wanted.of(sort="name", after=json.dumps([label, key, "f" * 32]), page=1)
            assert len(search(large, hostile, NOW).devices) <= 100
    for text in ("' OR 1=1 --\0\U0010ffff", "\U0010ffff", "\ud7ff", "x" * 5_000, "0" * 32):
        for field in ("search", "group", "network", "version"):
            assert search(large, Wanted.of(**{field: text}, page=1), NOW).devices == ()
    assert len(list_devices(large)) == COUNT + 4


def test_an_index_answers_every_query_of_a_page(large):
    asked = []
    event.listen(large.database.engine, "before_cursor_execute", lambda *told: asked.append(told[2:4]))
    for sort in SORTS:
        second = search(large, Wanted.of(sort=sort, page=1), NOW).next
        search(large, second, NOW)
    for state in ("silent", "waiting", "quarantine", "revoked"):
        search(large, Wanted.of(state=state, page=1), NOW)
    search(large, Wanted.of(search="attic", sort="name", page=1), NOW)
    with large.reading() as session:
        health.count_health(session, NOW)
        health.count_outdated(session, time.time())
        health.distinct(session, table_of(DeviceRow).c.group_name)
    list_devices(large, list_devices(large, limit=1)[0].device_id, 5)
    devices_called(large, "attic 3")
    sought = Sought(what="signed_in", who="server", since=0.0, until=9e9, before=9)
    find_entries(large, sought, 5)
    find_entries(large, Sought(who="dev"), 5)
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
        assert health.count_outdated(session, time.time()) == sum(device.outdated for device in devices)
        assert set(health.programs(session)) == {"0.0.9", "0.0.10", "99.0"}


def test_the_audit_is_searched_by_who_what_and_when_in_either_order(fleet):
    with fleet.store.writing() as session:
        for number in range(60):
            by = Actor(f"person {number % 3}") if number % 2 else SERVER
            audit(session, "signed_in" if number % 4 else "signed_out", by, 1_000.0 * number)
            session.flush()

    def found(**sought):
        return [
            (entry.who, entry.what, entry.at.timestamp()) for entry in find_entries(fleet.store, Sought(**sought), 500)
        ]

    assert {who for who, _, _ in found(who="person")} == {"person 0", "person 1", "person 2"}
    assert {who for who, _, _ in found(who="person 1")} == {"person 1"}
    assert found(who="p%") == found(who="per_on") == found(who="' OR 1=1 --") == []
    assert {what for _, what, _ in found(who="server", what="signed_out")} == {"signed_out"}
    times = [at for _, _, at in found(since=10_000.0, until=20_000.0)]
    assert times == [1_000.0 * number for number in range(19, 9, -1)]
    assert [at for _, _, at in found(since=10_000.0, until=20_000.0, oldest_first=True)] == times[::-1]
    assert found(since=1e12) == found(until=-1e12) == []
    everything = find_entries(fleet.store, Sought(), 500)
    pages, after = [], None
    while part := find_entries(fleet.store, Sought(after=after, oldest_first=True), 7):
        pages += part
        after = part[-1].audit_id
    assert pages == list(everything[::-1])
