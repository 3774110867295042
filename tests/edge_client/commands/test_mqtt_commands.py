"""A device is removed from a real broker (Mosquitto), and with that from Home Assistant."""

import json

import pytest

from edge_client.events import Health
from edge_client.events.mqtt import MqttSink
from tests.edge_client.events.test_home_assistant import retained
from tests.edge_client.home.test_broker_link import Ear
from tests.support.desk import free_port
from tests.support.mqtt_broker import DEVICE, Broker, Reader, event, needs_broker

OTHER = "f" * 32


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """On a busy machine the broker may not answer for long."""
    monkeypatch.setattr("edge_client.events.mqtt_clear._PATIENCE_S", 180.0)
    for part in ("mqtt", "mqtt_connection"):
        monkeypatch.setattr(f"edge_client.events.{part}._GRACE_S", 180.0)


def add_broker(edge, port):
    edge.config.write_text(f'{edge.config.read_text()}[mqtt]\nhost = "127.0.0.1"\nport = {port}\n')


@needs_broker
def test_nothing_is_left_of_a_device_that_was_removed_and_all_of_others(edge, start):
    broker = start(Broker, edge.folder)
    add_broker(edge, broker.port)
    own = edge.state.identity.load().device_id
    start(Reader, broker).client.publish("lamp/state", "on", qos=1, retain=True).wait_for_publish(180)
    for device in (own, OTHER):
        sink = start(MqttSink, broker.config(), device, "Küche", None, print)
        sink.announce([f"label {number}" for number in range(40)])
        sink.publish(event())
        sink.report(Health(True, "", "", 1_700_000_000.0, {}))
        at_least = 90 if device == own else 180
        retained(broker, lambda found, at_least=at_least: len(found) >= at_least)
        sink.close()
    # It is the last that each has to say.
    before = retained(
        broker, lambda found: all(found[f"auricle/{one}/availability"] == "offline" for one in (own, OTHER))
    )
    assert "say --yes" in edge("mqtt", "clear", status=1)
    removed = json.loads(edge("mqtt", "clear", "--yes", "--json"))["removed"]
    left = retained(broker, lambda _: True)
    assert left.keys() == before.keys() - set(removed)
    assert not [topic for topic in left if own in topic]
    assert "keeps nothing" in edge("mqtt", "clear", "--yes")
    edge("mqtt", "clear", "--yes", "--device", OTHER)
    assert retained(broker, lambda _: True) == {"lamp/state": "on"}


@needs_broker
def test_a_home_goes_with_its_last_device(edge, start):
    broker = start(Broker, edge.folder)
    add_broker(edge, broker.port)
    edge.config.write_text(f'{edge.config.read_text()}[home]\nname = "villa"\n')
    start(Reader, broker).client.publish("lamp/state", "on", qos=1, retain=True).wait_for_publish(180)
    document = "homeassistant/event/auricle_home_villa/heard/config"
    ear = start(Ear, broker, "attic")
    before = retained(broker, lambda found: document in found)
    edge("mqtt", "clear", "--yes")
    assert document in retained(broker, lambda _: True)  # the attic's still
    ear.close()
    retained(broker, lambda found: len(found) < len(before))
    edge("mqtt", "clear", "--yes")
    assert retained(broker, lambda _: True) == {"lamp/state": "on"}


def test_what_cannot_be_removed_is_said(edge, monkeypatch):
    assert "no section [mqtt]" in edge("mqtt", "clear", "--yes", status=1)
    add_broker(edge, free_port())
    assert "an id has the digits" in edge("mqtt", "clear", "--yes", "--device", "+/#", status=1)
    monkeypatch.setattr("edge_client.events.mqtt_clear._PATIENCE_S", 0.5)
    assert "Connection refused" in edge("mqtt", "clear", "--yes", "--device", DEVICE, status=1)
    edge.state.lock("daemon")
    assert "the daemon runs" in edge("mqtt", "clear", "--yes", status=1)
