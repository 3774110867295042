"""What Home Assistant sees of a device on a real broker: its sounds, its health, its versions; and the blueprint."""

import dataclasses
import json
import re

import jinja2
import pytest
import yaml

from edge_client.events import Health, Switch
from edge_client.events.home_assistant import Announced, discovery
from edge_client.events.mqtt import MqttSink
from edge_client.storage.device_state import DeviceState
from edge_client.storage.label_keys import label_key
from fleet_protocol.ground.command_line import version
from tests.support.checkout import ROOT
from tests.support.edge_process import wait_for
from tests.support.mqtt_broker import DEVICE, Broker, Reader, event, needs_broker

NODE, BASE = f"auricle_{DEVICE}", f"auricle/{DEVICE}"
BLUEPRINT = ROOT / "examples/home_assistant/when_a_sound_is_heard.yaml"
VERSIONS = {"auricle": "0.1.0", "bundle": "base", "runtime": "ai-edge-litert 2.3.0"}
WELL = Health(listening=True, problem="", error="", started=1_700_000_000.0, versions=VERSIONS)

# What Home Assistant's pages on MQTT list, as far as it may be used here.
SHARED = {"name", "unique_id", "icon", "state_topic", "availability_topic", "device", "origin", "entity_category"}
SEVERAL = {"availability", "availability_mode"}  # in the place of one topic
OPTIONS = {
    "event": SHARED | {"event_types", "device_class"},
    "sensor": SHARED | {"value_template", "json_attributes_topic", "device_class"},
    "binary_sensor": SHARED | {"value_template", "json_attributes_topic", "device_class", "off_delay"},
    "switch": SHARED | {"value_template", "json_attributes_topic", "command_topic"},
}
CLASSES = {
    "event": {None},
    "switch": {None},
    "sensor": {None, "timestamp"},
    "binary_sensor": {"sound", "problem", "running"},
}
LAST = "'unknown sound' if value_json.label == 'unknown' else value_json.label"
OF_A_DEVICE = {"identifiers", "name", "manufacturer", "model", "sw_version"}


@pytest.fixture
def house(tmp_path, start):
    """A broker, and (labels) -> a sink of the device that was taught them, as often as the device starts."""
    broker = start(Broker, tmp_path)

    def switch_on(*labels):
        sink = start(MqttSink, broker.config(), DEVICE, "Küche", tmp_path)
        sink.announce(labels)
        return sink

    return broker, switch_on


def retained(broker, until):
    """What a Home Assistant that starts now gets, by topic, from the time on at which a condition holds."""

    def look():
        reader, found = Reader(broker), {}
        reader.client.publish("mark", "end", qos=1).wait_for_publish(180)
        while (message := reader.messages.get(timeout=180)).topic != "mark":
            if message.retain:  # else it comes at this very moment
                found[message.topic] = message.payload.decode()
        reader.close()
        return found if until(found) else None

    return wait_for(look, what="the retained messages")


def sensor(label):
    """The topic that announces the sensor of a label, of its first name."""
    return f"homeassistant/binary_sensor/{NODE}/label_{label_key(label)}/config"


def device_of(*labels, **settings):
    """The arguments of its discovery."""
    return Announced(DEVICE, "Küche", BASE, **settings), {label: label_key(label) for label in labels}


def named(found, label):
    """The documents of sensors of this name among retained messages."""
    documents = [json.loads(payload) for topic, payload in found.items() if "/label_" in topic]
    return [document for document in documents if document["name"] == label]


def test_every_document_is_one_that_home_assistant_takes():
    documents = discovery(
        *device_of("siren", "chien d'à côté", "{{ 7 * 7 }}", "a/b+#", page="http://shelf.local:8471/")
    )
    assert len(documents) == 9 + 2 * 4
    assert len({document["unique_id"] for document in documents.values()}) == len(documents)
    for topic, document in documents.items():
        component, node, name = re.fullmatch(r"(\w+)/([\w-]+)/([\w-]+)/config", topic, re.ASCII).groups()
        assert node == NODE
        assert set(document) <= OPTIONS[component], name
        assert document.get("device_class") in CLASSES[component], name
        assert document["unique_id"] == f"{NODE}_{name}"
        assert document["name"]
        assert re.fullmatch(rf"{BASE}/[\w/]+", document["state_topic"], re.ASCII)
        assert set(document["device"]) == OF_A_DEVICE | {"configuration_url"}
        assert document["device"]["sw_version"] == document["origin"]["sw_version"] == version()
        # No word of an owner becomes a part of a template, which Home Assistant would run.
        template = document.get("value_template", "{{ value_json.x }}").replace(LAST, "value_json.x")
        assert re.fullmatch(r"\{\{ value_json\.\w+ \}\}", template)
    assert all("configuration_url" not in one["device"] for one in discovery(*device_of("siren")).values())


def test_the_last_sound_has_a_state_also_where_it_is_unknown():
    """Home Assistant takes the state "unknown" for none."""
    template = discovery(*device_of())[f"sensor/{NODE}/last_sound/config"]["value_template"]
    shown = [jinja2.Template(template).render(value_json={"label": label}) for label in ("siren", "unknown", None)]
    assert shown == ["siren", "unknown sound", "None"]


@needs_broker
def test_a_label_has_a_sensor_that_goes_on_when_it_is_heard(house, start):
    broker, switch_on = house
    sink = switch_on("siren", "dog bark")
    found = retained(broker, lambda found: sensor("dog bark") in found)
    document = json.loads(found[sensor("siren")])
    assert (document["name"], document["device_class"], document["off_delay"]) == ("siren", "sound", 5)
    assert found[document["state_topic"]] == "OFF"
    reader = start(Reader, broker)
    sink.publish(event("siren"))
    on = reader.next(document["state_topic"])
    while on.retain:  # what was retained comes first
        on = reader.next(document["state_topic"])
    assert on.payload == b"ON"
    assert retained(broker, lambda _: True)[document["state_topic"]] == "OFF"  # no restart sets anything off


def listen_topic(label):
    """The topic that says whether a label is listened for."""
    return f"{BASE}/label/{label_key(label)}/listen"


@needs_broker
def test_a_switch_of_each_label_says_and_decides_whether_it_is_listened_for(tmp_path, start, caplog):
    broker, switched = start(Broker, tmp_path), []
    sink = start(MqttSink, broker.config(), DEVICE, "Küche", tmp_path, switch=switched.append)
    odd = "{{ 7 * 7 }} <b>é/+#"
    sink.announce(["siren", odd])
    document = f"homeassistant/switch/{NODE}/listen_{label_key(odd)}/config"
    found = retained(broker, lambda found: document in found and listen_topic(odd) in found)
    shown = json.loads(found[document])
    assert (shown["name"], shown["state_topic"]) == (f"Listen for {odd}", listen_topic(odd))
    assert (found[listen_topic("siren")], found[listen_topic(odd)]) == ("ON", "ON")

    def press(topic, payload):
        reader.client.publish(topic, payload, qos=1).wait_for_publish(180)

    reader = start(Reader, broker)
    for bad in (b"", b"30m", b"\xff" * 10_000, b"ON\0", b"null"):
        press(shown["command_topic"], bad)
    # No more than eight may wait.
    wait_for(lambda: "a command by MQTT was refused" in caplog.text, what="the refusal of the first")
    for gone in ("unknown", "../siren", "#"):
        press(f"{BASE}/label/{label_key(gone)}/listen/set", "OFF")
    press(shown["command_topic"], "OFF")
    retained(broker, lambda found: found[listen_topic(odd)] == "OFF")
    assert switched == [Switch(on=False, label=odd)]
    sink.switched_off({"siren"})  # by a command meanwhile
    retained(broker, lambda found: (found[listen_topic("siren")], found[listen_topic(odd)]) == ("OFF", "ON"))
    sink.announce(["siren"])
    retained(broker, lambda found: document not in found and listen_topic(odd) not in found)


@needs_broker
def test_sensors_follow_what_is_taught_renamed_and_forgotten_also_while_the_device_is_off(house, start):
    broker, switch_on = house
    sink = switch_on("anna", "siren")
    retained(broker, lambda found: {sensor("anna"), sensor("siren")} <= set(found))
    sink.announce(["anna", "siren", "bell"])  # taught
    retained(broker, lambda found: sensor("bell") in found)
    sink.announce(["anna", "alarm", "bell"])  # renamed
    gone = {sensor("siren"), f"{BASE}/label/{label_key('siren')}"}
    retained(broker, lambda found: sensor("alarm") in found and not gone & set(found))
    sink.close()
    switch_on("bell")  # forgotten while nobody was connected

    def told(found):  # each document is published alone, so a reader may come between two
        named = [topic for topic, payload in found.items() if "anna" in payload and "config" in topic]
        return not named and sensor("alarm") not in found and sensor("anna") not in found

    assert sensor("bell") in retained(broker, told)


def arrived(reader, until):
    """All messages until one, as (topic, payload, retained)."""
    found = []
    while not found or not until(*found[-1]):
        message = reader.messages.get(timeout=180)
        found.append((message.topic, message.payload.decode(), bool(message.retain)))
    return found


@needs_broker
def test_a_sound_that_goes_on_is_not_switched_off_by_what_is_taught_meanwhile(house, start):
    broker, switch_on = house
    sink, reader = switch_on("siren", "bell"), start(Reader, broker)
    topic = f"{BASE}/label/{label_key('siren')}"
    reader.next(topic)
    begun = event("siren")
    sink.publish(begun)
    for labels in (["siren", "bell", "horn"], ["siren", "bell", "horn"], ["horn", "siren"]):
        sink.announce(labels)
        sink.follow(begun)
    wait_for(lambda: sensor("bell") not in retained(broker, lambda _: True), what="the last of them")
    sink.follow(dataclasses.replace(begun, ended=begun.time + 20))
    found = [payload for name, payload, _ in arrived(reader, lambda *one: one[:2] == (topic, "OFF")) if name == topic]
    assert found == ["ON"] * 4 + ["OFF"]
    assert retained(broker, lambda _: True)[topic] == "OFF"


@needs_broker
def test_what_went_while_home_assistant_was_away_is_shown_once_more_and_taken_back_when_it_starts(house, start):
    """It remembers entities over its restarts, and removes those alone that it was shown since."""
    broker, switch_on = house
    sink = switch_on("anna", "siren")
    retained(broker, lambda found: {sensor("anna"), sensor("siren")} <= set(found))
    sink.announce(["siren"])
    retained(broker, lambda found: sensor("anna") not in found)

    def taken_back(reader):
        messages = arrived(reader, lambda topic, payload, _: (topic, payload) == (sensor("anna"), ""))
        (shown,) = [one for one in messages if one[0] == sensor("anna")][:-1]
        document = json.loads(shown[1])
        assert document["unique_id"] == f"{NODE}_label_{label_key('anna')}"
        assert "anna" not in document["name"]
        assert not shown[2]
        assert sensor("anna") not in retained(broker, lambda _: True)

    reader = start(Reader, broker)
    reader.client.publish("homeassistant/status", "online", qos=1)
    taken_back(reader)
    reader.client.publish(sensor("siren"), "", qos=1, retain=True).wait_for_publish(180)  # its device is deleted there
    reader.client.publish("homeassistant/status", "online", qos=1)
    retained(broker, lambda found: sensor("siren") in found)
    sink.close()
    broker.kill()
    broker.start()
    reader = start(Reader, broker)
    switch_on("siren")
    taken_back(reader)


@needs_broker
def test_whoever_says_again_and_again_that_home_assistant_started_is_answered_seldom(house, start):
    broker, switch_on = house
    sink, reader = switch_on("siren"), start(Reader, broker)
    reader.next(f"homeassistant/event/{NODE}/sound/config")
    for _ in range(300):
        last = reader.client.publish("homeassistant/status", "online", qos=1)
    last.wait_for_publish(180)
    reader.next(f"homeassistant/event/{NODE}/sound/config")
    sink.publish(event("bell"))
    answers = [topic for topic, *_ in arrived(reader, lambda topic, *_: topic == f"{BASE}/event")]
    assert answers.count(f"homeassistant/event/{NODE}/sound/config") <= 2


@needs_broker
def test_a_renamed_label_keeps_its_sensor_and_one_that_is_taught_later_gets_another(house, start, tmp_path):
    broker, switch_on = house
    sink, choices = switch_on("siren", "bell"), DeviceState(tmp_path).choices
    first = json.loads(retained(broker, lambda found: sensor("bell") in found)[sensor("siren")])
    choices.rename_label("siren", "horn")
    choices.rename_label("horn", "alarm")  # before the device has learned the other name
    reader = start(Reader, broker)
    sink.announce(["bell"])  # the former name is gone, the clips are learned
    sink.announce(["bell", "alarm"])
    renamed = json.loads(retained(broker, lambda found: named(found, "alarm"))[sensor("siren")])
    assert renamed == first | {"name": "alarm"}
    sink.publish(event("alarm"))
    messages = arrived(reader, lambda topic, payload, _: (topic, payload) == (first["state_topic"], "ON"))
    assert (sensor("siren"), "") not in [one[:2] for one in messages]
    sink.close()
    sink = switch_on("bell", "alarm", "siren")  # another sound, after a restart
    (other,) = named(retained(broker, lambda found: named(found, "siren")), "siren")
    assert other["unique_id"] != first["unique_id"]
    choices.rename_label("alarm", "warning")
    choices.rename_label("warning", "alarm")  # taken back
    for labels in (["bell", "siren"], ["bell", "siren", "alarm"]):
        sink.announce(labels)
    (back,) = named(retained(broker, lambda found: named(found, "alarm")), "alarm")
    assert back == renamed
    choices.expect_no_more(["alarm"])  # deleted
    sink.announce(["bell", "siren"])
    found = retained(broker, lambda found: sensor("siren") not in found)
    assert named(found, "siren") == [other]


@needs_broker
def test_sensors_of_a_release_without_kept_names_stay_what_they_are(house, tmp_path):
    broker, switch_on = house
    keys = [label_key("siren"), label_key("anna"), "asks"]
    DeviceState(tmp_path).database.set_note("announced", keys)
    switch_on("siren")
    found = retained(broker, lambda found: sensor("siren") in found)
    assert json.loads(found[sensor("siren")])["unique_id"] == f"{NODE}_label_{label_key('siren')}"


@needs_broker
def test_health_and_versions_are_told_when_they_change(house, start):
    broker, switch_on = house
    sink = switch_on("siren")
    sink.report(WELL)
    last = {f"{BASE}/status", sensor("siren")}
    found = retained(broker, lambda found: last <= set(found))
    reported = json.loads(found[f"{BASE}/status"])
    assert (reported["what"], reported["auricle"]) == ("none", "0.1.0")
    shown = {}
    for topic, payload in found.items():
        if topic.endswith("/config") and (document := json.loads(payload))["state_topic"] == f"{BASE}/status":
            shown[document["name"]] = jinja2.Template(document["value_template"]).render(value_json=reported)
            assert document["entity_category"] == "diagnostic"
    assert shown == {
        "Problem": "OFF",
        "Listening": "ON",
        "Last error": "none",
        "Started": "2023-11-14T22:13:20+00:00",
        "Bundle": "base",
        "Runtime": "ai-edge-litert 2.3.0",
    }
    reader = start(Reader, broker)
    for part_s in (0.0, 0.1, 0.000001):
        sink.report(dataclasses.replace(WELL, started=WELL.started + part_s))
    sink.report(Health(False, "listening failed: no microphone", "listening: " + "x" * 900, WELL.started, VERSIONS))
    messages = [json.loads(reader.next(f"{BASE}/status").payload) for _ in range(2)]  # the retained one, and the change
    assert (messages[1]["problem"], messages[1]["listening"]) == ("ON", "OFF")
    assert messages[1]["what"] == "listening failed: no microphone"
    assert len(messages[1]["error"]) <= 255


class Blueprint(yaml.SafeLoader):
    """Home Assistant's YAML, in which ``!input`` names an input."""


Blueprint.add_constructor("!input", lambda loader, node: ("input", loader.construct_scalar(node)))


def inputs_used(part):
    if isinstance(part, tuple):
        return {part[1]}
    values = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return {name for value in values for name in inputs_used(value)}


@needs_broker
def test_the_blueprint_runs_for_its_sound_alone(house, start):
    """Its condition, rendered with the attributes that Home Assistant makes of what the device sends."""
    broker, switch_on = house
    sink = switch_on("siren", "bell")
    reader = start(Reader, broker)
    sink_is_there = reader.next(f"{BASE}/availability")
    assert sink_is_there.payload == b"online"
    sink.publish(event("siren"))
    attributes = json.loads(reader.next(f"{BASE}/event").payload)
    document = yaml.load(BLUEPRINT.read_text(), Blueprint)
    condition = jinja2.Template(document["conditions"][0]["value_template"])

    def runs(label, least_score, before="2023-11-14T22:00:00"):
        states = {"from_state": before, "to_state": {"attributes": attributes}}
        return condition.render(trigger=states, wanted_label=label, wanted_score=least_score) == "True"

    assert runs("siren", 0)
    assert runs("siren", 0.9)
    assert not runs("siren", 0.95)
    assert not runs("bell", 0)
    assert not runs("siren", 0, before=None)  # Home Assistant starts
