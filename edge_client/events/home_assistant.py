"""Home Assistant's MQTT discovery: the entities of a device, each announced by a document of its own.

Topics and payloads follow Home Assistant's "MQTT discovery" (single components), "MQTT event", "MQTT sensor", "MQTT
binary sensor", "MQTT switch", "MQTT button" and "MQTT select"; docs/home-assistant.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from edge_client.events.mqtt_commands import ANSWER, ASKED, PAUSE, QUESTION, SET, listen_topic
from fleet_protocol.ground.command_line import version

# Seconds after which a label's sensor is off again.
_OFF_S = 5
# What stands for an unknown sound where a state is shown: "unknown" would read as none.
_UNKNOWN_SOUND = "unknown sound"
Documents = dict[str, dict[str, Any]]
"""Documents by their topics behind the discovery prefix."""


@dataclass(frozen=True)
class Announced:
    """A device as Home Assistant shows it; ``base``: what its topics begin with, ``page``: its page's address or ""."""

    device_id: str
    name: str
    base: str
    page: str = ""

    @property
    def node(self) -> str:
        """The device's part of discovery topics, with which the identifiers of its entities begin, too."""
        return f"auricle_{self.device_id}"


def discovery(device: Announced, keys: Mapping[str, str] | None, *, asks: bool = False) -> Documents:
    """Return the documents of a device, with the keys of its labels; None: it does not know its labels yet.

    ``asks``: whether it asks about sounds.
    """
    entities = _diagnostics(device.base)
    if keys is None:
        return _documents(device, entities)
    entities |= _sounds(device.base, keys) | (_questions(device.base, keys) if asks else {})
    return _documents(device, entities | _labels(device.base, keys))


def discovery_of_gone(device: Announced, keys: Collection[str], *, asked: bool = False) -> Documents:
    """Return documents of entities that are gone, without their names: of labels by their keys, and of questions.

    Home Assistant removes what it knows alone. What went while it was away, it has to be shown once more.
    """
    labels = _labels(device.base, {f"gone {key}": key for key in keys})
    return _documents(device, labels | (_questions(device.base, ()) if asked else {}))


def home_base(topic: str, home: str) -> str:
    """Return what the topics of a home begin with; ``topic``: of ``[mqtt]``."""
    return f"{topic}/home/{home}"


def discovery_of_home(base: str, home: str) -> Documents:
    """Return the document of a home, which all its devices announce alike; ``base``: of :func:`home_base`."""
    heard = _shown("Heard", "home-sound-in", f"{base}/event", event_types=["heard"])
    about = {"name": f"Home {home}", "model": "One home, many ears"}
    return _of_node(f"auricle_home_{home}", about, {("event", "heard"): heard})


def _documents(device: Announced, entities: Mapping[tuple[str, str], dict[str, Any]]) -> Documents:
    page = {"configuration_url": device.page} if device.page else {}
    about = {"name": device.name, "model": "Sound recogniser", **page}
    always = {"availability_topic": f"{device.base}/availability"}
    found = {key: one if "availability" in one else one | always for key, one in entities.items()}
    return _of_node(device.node, about, found)


def _of_node(node: str, about: dict[str, str], entities: Mapping[tuple[str, str], dict[str, Any]]) -> Documents:
    shared = {
        "device": {"identifiers": [node], "manufacturer": "Auricle", "sw_version": version(), **about},
        "origin": {"name": "Auricle", "sw_version": version()},
    }
    return {
        f"{component}/{node}/{key}/config": {"unique_id": f"{node}_{key}", **document, **shared}
        for (component, key), document in entities.items()
    }


def _labels(base: str, keys: Mapping[str, str]) -> dict[tuple[str, str], dict[str, Any]]:
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for label, key in keys.items():
        topic = f"{base}/label/{key}"
        sensor = {"name": label, "device_class": "sound", "state_topic": topic, "off_delay": _OFF_S}
        found["binary_sensor", f"label_{key}"] = sensor
        switch = _shown(f"Listen for {label}", "ear-hearing", f"{base}/{listen_topic(key)}")
        found["switch", f"listen_{key}"] = switch | {
            "entity_category": "config",
            "command_topic": f"{base}/{listen_topic(key)}{SET}",
        }
    return found


def _sounds(base: str, labels: Collection[str]) -> dict[tuple[str, str], dict[str, Any]]:
    sounds = [*dict.fromkeys((*labels, "unknown"))]
    last = f"{{{{ '{_UNKNOWN_SOUND}' if value_json.label == 'unknown' else value_json.label }}}}"
    return {
        ("event", "sound"): _shown("Sound", "ear-hearing", f"{base}/event", event_types=sounds),
        ("sensor", "last_sound"): _shown("Last sound", "waveform", f"{base}/last", last),
    }


def _shown(name: str, icon: str, topic: str, value: str = "", **more: object) -> dict[str, Any]:
    """Return the document of what a topic shows, by the template of its ``value``, with all else as attributes."""
    shown = {"value_template": value, "json_attributes_topic": topic} if value else {}
    return {"name": name, "icon": f"mdi:{icon}", "state_topic": topic, **shown, **more}


def _questions(base: str, labels: Collection[str]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return what asks the owner, and takes his answer to the question that is shown."""
    while_asked = {
        "availability": [
            {"topic": f"{base}/availability"},
            {"topic": f"{base}/{QUESTION}", "value_template": "{{ 'online' if value_json.open else 'offline' }}"},
        ],
        "availability_mode": "all",
        "command_topic": f"{base}/{ANSWER}",
    }

    def button(key: str, name: str, icon: str) -> dict[str, Any]:
        return {"name": name, "icon": icon, "payload_press": key, **while_asked}

    icon, value = "help-circle-outline", "{{ value_json.question }}"
    return {
        ("event", "asked"): _shown("Asks", icon, f"{base}/{ASKED}", event_types=["asked"]),
        ("sensor", "question"): _shown("Question", icon, f"{base}/{QUESTION}", value),
        ("button", "question_yes"): button("yes", "Question: yes", "mdi:check"),
        ("button", "question_no"): button("no", "Question: no", "mdi:close"),
        ("select", "question_was"): {
            **_shown("Question: it was", "pencil-outline", f"{base}/{QUESTION}"),
            "value_template": "{{ value_json.was }}",  # null: nothing is chosen until somebody does
            "command_template": '{"answer": "was", "label": {{ value | tojson }}}',
            "options": [*labels],
            **while_asked,
        },
    }


def _diagnostics(base: str) -> dict[tuple[str, str], dict[str, Any]]:
    def of(key: str, name: str, **more: object) -> dict[str, Any]:
        status = {"state_topic": f"{base}/status", "value_template": f"{{{{ value_json.{key} }}}}"}
        return {"name": name, "entity_category": "diagnostic", **status, **more}

    attributes = {"json_attributes_topic": f"{base}/status"}
    return {
        ("binary_sensor", "problem"): of("problem", "Problem", device_class="problem", **attributes),
        ("binary_sensor", "listening"): of("listening", "Listening", device_class="running"),
        ("switch", "pause"): {
            **_shown("Pause", "microphone-off", f"{base}/{PAUSE}", "{{ value_json.paused }}"),
            "command_topic": f"{base}/{PAUSE}{SET}",
        },
        ("sensor", "error"): of("error", "Last error", icon="mdi:alert-circle-outline"),
        ("sensor", "started"): of("started", "Started", device_class="timestamp"),
        ("sensor", "bundle"): of("bundle", "Bundle", icon="mdi:package-variant"),
        ("sensor", "runtime"): of("runtime", "Runtime", icon="mdi:chip"),
    }
