"""Devices of one home with a real broker: one event, at the ear that heard it best; nobody is deaf without it."""

import dataclasses
import json
from types import SimpleNamespace

import pytest

from edge_client.config.sections import HomeConfig
from edge_client.events import Event
from edge_client.home import broker_link
from edge_client.home.broker_link import HomeLink, HomeSink, settle_homes
from edge_client.storage.database import Database
from tests.support.edge_process import wait_for
from tests.support.mqtt_broker import Broker, Reader, needs_broker, starting

HOME = HomeConfig(name="villa", window_s=0.7)


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """On a busy machine the broker may not answer for long."""
    monkeypatch.setattr("edge_client.events.mqtt_clear._PATIENCE_S", 180.0)
    monkeypatch.setattr("edge_client.events.mqtt_connection._GRACE_S", 180.0)


@pytest.fixture
def start():
    with starting() as one:
        yield one


class Ear(HomeSink):
    """The link of a device, and what it was told."""

    def __init__(self, broker, name, home=HOME):
        self.told = []
        super().__init__(HomeLink(home, broker.config(), (name * 4, name), "daemon", self.told.append))

    def hears(self, label="doorbell", noise_db=-60.0):
        for _ in range(4):
            self.level("", noise_db, 0.5)
        self.publish(Event(1_700_000_000.0, "detected", label, None, 0.9, -20.0))


def known_to_each_other(ears):
    names = sorted(ear.link._name for ear in ears)
    wait_for(lambda: all(ear.link.devices == names for ear in ears), what="all devices of the home")


class Clock:
    """The clock of all links; it stands still until every device was told what was heard, however long that takes."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def go_on(self, ears, hearings):
        def told(ear):
            groups = list(ear.link._arbiter._groups.values())
            return sum(len(group.heard) for group in groups) == hearings

        wait_for(lambda: all(map(told, ears)), what="what was heard at all devices")
        self.now += HOME.window_s


@needs_broker
def test_three_devices_that_hear_a_doorbell_make_one_event(start, tmp_path, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(broker_link, "time", clock)
    broker = start(Broker, tmp_path)
    reader = start(Reader, broker)
    ears = [start(Ear, broker, name) for name in ("attic", "hall", "kitchen")]
    known_to_each_other(ears)
    for ear, noise_db in zip(ears, (-30.0, -70.0, -50.0), strict=True):
        ear.hears(noise_db=noise_db)
    clock.go_on(ears, 3)
    wait_for(lambda: all(ear.told for ear in ears), what="the event at all devices")
    assert [[one.name for one in ear.told[0].heard] for ear in ears] == [["hall", "kitchen", "attic"]] * 3
    published = json.loads(reader.next("auricle/home/villa/event").payload)
    assert (published["event_type"], published["label"], published["first"]) == ("heard", "doorbell", "hall")
    assert [(one["name"], one["snr_db"]) for one in published["heard_by"]] == [
        ("hall", 50.0),
        ("kitchen", 30.0),
        ("attic", 10.0),
    ]
    # Once alone: a second occurrence is the next that is published.
    ears[0].hears("siren")
    clock.go_on(ears, 1)
    assert json.loads(reader.next("auricle/home/villa/event").payload)["label"] == "siren"
    wait_for(lambda: all(len(ear.told) == 2 for ear in ears), what="the second event")


@needs_broker
def test_home_assistant_finds_the_home_and_strangers_messages_do_no_harm(start, tmp_path):
    broker = start(Broker, tmp_path)
    reader = start(Reader, broker)
    ears = [start(Ear, broker, name) for name in ("attic", "hall")]
    config = json.loads(reader.next("homeassistant/event/auricle_home_villa/heard/config").payload)
    assert (config["state_topic"], config["event_types"]) == ("auricle/home/villa/event", ["heard"])
    known_to_each_other(ears)
    for bad in ("", "[]", '{"over": {"first": "nobody", "device": "x"}}', "[" * 5000, '{"heard": {"label": "x"}}'):
        reader.client.publish("auricle/home/villa", bad, qos=1)
    for number in range(200):
        reader.client.publish(f"auricle/home/villa/device/{number}", "x" * 10_000, qos=1)
    ears[0].hears()
    wait_for(lambda: all(ear.told for ear in ears), what="the event")
    assert len(ears[0].link.devices) <= 64
    assert max(map(len, ears[0].link.devices)) <= 400


@needs_broker
def test_a_device_that_leaves_or_dies_is_no_longer_of_the_home(start, tmp_path):
    broker = start(Broker, tmp_path)
    ears = [start(Ear, broker, name) for name in ("attic", "hall")]
    known_to_each_other(ears)
    ears[1].close()
    wait_for(lambda: ears[0].link.devices == ["attic"], what="the home without hall")


@needs_broker
def test_home_assistant_keeps_a_home_until_its_last_device_left(start, tmp_path):
    broker = start(Broker, tmp_path)
    document = "homeassistant/event/auricle_home_villa/heard/config"
    database = Database(tmp_path / "state.sqlite3")
    ears = [start(Ear, broker, name) for name in ("attic", "hall")]
    known_to_each_other(ears)

    def settled(home, mqtt):
        thread = settle_homes(SimpleNamespace(home=home, mqtt=mqtt), database, "attic" * 4)
        if thread is not None:
            thread.join()

    def shown():
        reader = start(Reader, broker)
        reader.client.publish("end", "", qos=1)
        found = {}
        while (one := reader.messages.get(timeout=180)).topic != "end":
            found[one.topic] = one.payload
        return found.get(document)

    settled(HOME, broker.config())
    settled(None, None)  # without a broker nobody can be told yet
    ears[0].close()
    settled(None, broker.config())
    assert json.loads(shown())["device"]["name"] == "Home villa"  # the hall's still
    ears[1].close()
    settled(HOME, broker.config())
    settled(dataclasses.replace(HOME, name="flat"), broker.config())
    assert shown() is None


@needs_broker
def test_without_its_broker_each_device_hears_for_itself(start, tmp_path):
    broker = start(Broker, tmp_path)
    ears = [start(Ear, broker, name) for name in ("attic", "hall")]
    known_to_each_other(ears)
    broker.kill()
    wait_for(lambda: all(ear.link.trouble() for ear in ears), what="the broker's end")
    for ear in ears:
        ear.hears()
    assert [[one.name for one in ear.told[0].heard] for ear in ears] == [["attic"], ["hall"]]
