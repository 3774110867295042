"""Home Assistant's MQTT discovery: the entities of a device, each announced by a document of its own.

Topics and payloads follow Home Assistant's "MQTT discovery" (single components), "MQTT event", "MQTT sensor", "MQTT
binary sensor", "MQTT button" and "MQTT select"; docs/home-assistant.md.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from typing import Any

from edge_client.errors import StateError
from edge_client.events.mqtt_questions import ANSWER, ASKED, QUESTION
from edge_client.storage.database import Database
from fleet_protocol.command_line import version

log = logging.getLogger(__name__)

# Seconds after which a label's sensor is off again.
OFF_S = 5
_MOST_KEYS, _ANNOUNCED = 256, "announced"


class AnnouncedKeys:
    """The keys of all labels that were ever announced, so that those that vanished meanwhile are taken back."""

    def __init__(self, database: Database | None) -> None:
        """Read what an earlier process noted in the device's database; None: nothing is noted."""
        self._database = database
        self._keys: list[str] = []
        if database is not None:
            try:
                self._keys = database.note(_ANNOUNCED) or []
            except (StateError, OSError) as error:
                log.warning("%s; sounds that are gone may stay in Home Assistant", error)

    def add(self, keys: Iterable[str]) -> set[str]:
        """Note further keys; return all, but the oldest where there are very many."""
        every = [*dict.fromkeys((*self._keys, *keys))][-_MOST_KEYS:]
        if every != self._keys and self._database is not None:
            try:
                self._database.set_note(_ANNOUNCED, every)
            except (StateError, OSError) as error:
                log.warning("cannot note which sounds were announced: %s", error)
        self._keys = every
        return set(every)


def label_key(label: str) -> str:
    """Return what stands for a label in topics, which take fewer characters than an owner's word: 12 hex digits."""
    return hashlib.sha256(label.encode()).hexdigest()[:12]


def sensor_topic(device_id: str, key: str) -> str:
    """Return the topic, behind the prefix, of the document that announces a label's sensor."""
    return f"binary_sensor/{_node(device_id)}/label_{key}/config"


def discovery(
    base: str, device_id: str, name: str, labels: Sequence[str], *, asks: bool = False
) -> dict[str, dict[str, Any]]:
    """Return the documents by their topics behind the prefix; ``asks``: whether the device asks about sounds."""
    node = _node(device_id)
    questions = _questions(base, labels) if asks else {}
    device = {"identifiers": [node], "name": name, "manufacturer": "Auricle", "model": "Sound recogniser"}
    shared = {
        "availability_topic": f"{base}/availability",
        "device": {**device, "sw_version": version()},
        "origin": {"name": "Auricle", "sw_version": version()},
    }
    documents = {
        f"{component}/{node}/{key}/config": {"unique_id": f"{node}_{key}", **document, **shared}
        for (component, key), document in {**_sounds(base, labels), **_diagnostics(base), **questions}.items()
    }
    for label in labels:
        key = label_key(label)
        documents[sensor_topic(device_id, key)] = {
            "name": label,
            "unique_id": f"{node}_label_{key}",
            "device_class": "sound",
            "state_topic": f"{base}/label/{key}",
            "off_delay": OFF_S,
            **shared,
        }
    return documents


def _node(device_id: str) -> str:
    return f"auricle_{device_id}"


def _sounds(base: str, labels: Sequence[str]) -> dict[tuple[str, str], dict[str, Any]]:
    sounds = [*dict.fromkeys((*labels, "unknown"))]
    return {
        ("event", "sound"): _shown("Sound", "ear-hearing", f"{base}/event", event_types=sounds),
        ("sensor", "last_sound"): _shown("Last sound", "waveform", f"{base}/last", "{{ value_json.label }}"),
    }


def _shown(name: str, icon: str, topic: str, value: str = "", **more: object) -> dict[str, Any]:
    """Return the document of what a topic shows, by the template of its ``value``, with all else as attributes."""
    shown = {"value_template": value, "json_attributes_topic": topic} if value else {}
    return {"name": name, "icon": f"mdi:{icon}", "state_topic": topic, **shown, **more}


def question_topics(device_id: str) -> list[str]:
    """Return the topics, behind the prefix, of the documents of a device that asks."""
    return [f"{component}/{_node(device_id)}/{key}/config" for component, key in _questions("", ())]


def _questions(base: str, labels: Sequence[str]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return what asks the owner, and takes his answer to the question that is shown."""

    def button(key: str, name: str, icon: str) -> dict[str, Any]:
        return {"name": name, "icon": icon, "command_topic": f"{base}/{ANSWER}", "payload_press": key}

    icon, value = "help-circle-outline", "{{ value_json.question }}"
    return {
        ("event", "asked"): _shown("Asks", icon, f"{base}/{ASKED}", event_types=["asked"]),
        ("sensor", "question"): _shown("Question", icon, f"{base}/{QUESTION}", value),
        ("button", "question_yes"): button("yes", "Question: yes", "mdi:check"),
        ("button", "question_no"): button("no", "Question: no", "mdi:close"),
        ("select", "question_was"): {
            **_shown("Question: it was", "pencil-outline", f"{base}/{QUESTION}"),
            "value_template": "{{ value_json.was }}",  # null: nothing is chosen until somebody does
            "command_topic": f"{base}/{ANSWER}",
            "command_template": '{"answer": "was", "label": {{ value | tojson }}}',
            "options": [*labels],
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
        ("sensor", "error"): of("error", "Last error", icon="mdi:alert-circle-outline"),
        ("sensor", "started"): of("started", "Started", device_class="timestamp"),
        ("sensor", "bundle"): of("bundle", "Bundle", icon="mdi:package-variant"),
        ("sensor", "runtime"): of("runtime", "Runtime", icon="mdi:chip"),
    }
