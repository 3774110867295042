"""Events to an MQTT broker, the sounds that the device knows, and how it is; docs/home-assistant.md has the topics."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from edge_client.config.sections import MqttConfig
from edge_client.errors import EdgeError
from edge_client.events import Asked, Event, Health, Sink, Switch
from edge_client.events.delivery import Delivery
from edge_client.events.home_assistant import Announced, discovery, discovery_of_gone
from edge_client.events.mqtt_commands import (
    ANSWER,
    ASKED,
    COMMANDS,
    PAUSE,
    QUESTION,
    ToldQuestions,
    asked,
    listen_topic,
    reply_of,
    shown_pause,
    shown_questions,
    switch_of,
)
from edge_client.events.mqtt_connection import Connection
from edge_client.logs import RateLimitedLog
from edge_client.pauses import Pause
from edge_client.storage.database import FILE, Database
from edge_client.storage.label_keys import LabelKeys, label_key

if TYPE_CHECKING:
    from paho.mqtt.client import MQTTMessageInfo

log = logging.getLogger(__name__)

_GRACE_S = 2.0
# Answers that may wait for the disk: whoever writes to the broker may send any number.
_ANSWERS = 8
# Home Assistant takes states of 255 characters.
_LONGEST = 250
# What Home Assistant publishes when it has started, and between two answers to that, s: others may publish it too.
_BORN, _BORN_AGAIN_S = b"online", 5.0
_News = Literal["connected", "born", "labels", "questions", "switches"]


class MqttSink(Sink):
    """Sends events, labels, health and questions to a broker.

    A late event would set off what should have happened then, so events are not kept for a broker that is away (the
    journal has them). When it is back, it gets the last sound and the state of the device, which are retained.
    """

    def __init__(
        self,
        config: MqttConfig,
        device_id: str,
        name: str,
        folder: Path | None = None,
        answer: Callable[[str, str, str], None] | None = None,
        page: str = "",
        switch: Callable[[Switch], Pause | None] | None = None,
    ) -> None:
        """Begin to connect, in a thread of its own; a broker that is away is tried again after growing pauses.

        Without the state ``folder``, announced labels are forgotten at the end; without ``answer``, nothing is asked;
        ``page``: address of the owner's page, where it is known; ``switch`` pauses the device, or ends that, and
        returns how it is then. Raises ConfigError if paho-mqtt is not installed, or too old.
        """
        self._config = config
        self._device = Announced(device_id, name, f"{config.topic}/{device_id}", page)
        database = None if folder is None else Database(folder / FILE)
        self._label_keys, self._told = LabelKeys(database), ToldQuestions(database)
        self._sending: Delivery[_News] = Delivery("the MQTT broker", self._tell)
        self._answer = answer
        self._answers: Delivery[bytes] = Delivery("an answer by MQTT", self._take_answer, _ANSWERS)
        self._switch = switch
        self._switches: Delivery[tuple[str, bytes]] = Delivery("a command by MQTT", self._take_switch, _ANSWERS)
        self._pause: Pause | None = None
        self._pause_known = False
        # Labels that are switched off, and by key what the broker was told in this connection.
        self._off: frozenset[str] = frozenset()
        self._listen_told: dict[str, str] = {}
        self._questions: tuple[Asked, ...] = ()
        self._labels: tuple[str, ...] | None = None
        # By label; what the broker was told of in this connection, and whether it was told all of the device.
        self._keys: Mapping[str, str] = {}
        self._announced: Mapping[str, str] | None = None
        self._greeted = False
        self._last: Event | None = None
        self._last_is_gone = False
        # By label, the inputs that hear a sound which goes on: it is over once no input hears it.
        self._sounding: dict[str, set[str]] = {}
        self._status: dict[str, str] | None = None
        self._lock = threading.Lock()
        self._trouble = RateLimitedLog(log)
        self._born, self._next_birth, self._closing = False, 0.0, threading.Event()
        will = f"{self._device.base}/availability", "offline"
        self._connection = Connection(config, f"auricle-{device_id}", self._connected, self._received, will)
        self._connection.begin()

    def announce(self, labels: Sequence[str]) -> None:
        """Announce the sounds to Home Assistant."""
        with self._lock:
            self._labels = tuple(labels)
            if self._last is not None and self._last.kind == "detected" and self._last.label not in labels:
                self._last, self._last_is_gone = None, True  # the broker retains a name that its owner took away
        self._sending.put("labels")

    def publish(self, event: Event) -> None:
        """Send an event, unless the broker is away."""
        with self._lock:
            self._last, self._last_is_gone = event, False
        if not self._connection.up:
            self._trouble.warning("the MQTT broker %s is away and misses an event", self._config.host)
            return
        self._send("event", {"event_type": event.label, **event.to_json()}, retain=False)
        self._send_last()
        if event.kind == "detected":
            self._send(self._label_topic(event.label), "ON", retain=False)

    def follow(self, event: Event) -> None:
        """Say that a sound goes on, before its sensor switches itself off, or is over."""
        with self._lock:
            sounding = self._sounding.setdefault(event.label, set())
            (sounding.add if event.ended is None else sounding.discard)(event.input)
            is_last = self._last is not None and (self._last.time, self._last.label) == (event.time, event.label)
            if is_last and event.ended is not None:
                self._last = event
        if not self._connection.up:
            return
        known = event.label in self._keys  # else nobody would take back what is retained
        self._send(self._label_topic(event.label), "ON" if sounding else "OFF", retain=known and not sounding)
        if is_last and event.ended is not None:
            self._send_last()

    def ask(self, questions: Sequence[Asked]) -> None:
        """Publish the oldest open question, and each one that is new as an event."""
        with self._lock:
            before, self._questions = self._questions, tuple(questions)
        if before != tuple(questions):
            self._sending.put("questions")

    def report(self, health: Health) -> None:
        """Publish the device's health, where it changed."""
        status = {
            "problem": "ON" if health.problem else "OFF",
            "listening": "ON" if health.listening else "OFF",
            "what": health.problem[:_LONGEST] or "none",
            "error": health.error[:_LONGEST] or "none",
            "started": datetime.fromtimestamp(health.started, UTC).isoformat(timespec="seconds"),
            **health.versions,
        }
        changed, self._status = status != self._status, status
        if changed and self._connection.up:
            self._send("status", status, retain=True)

    def pause(self, pause: Pause | None) -> None:
        """Publish whether the device is paused, where that changed."""
        with self._lock:
            changed = not self._pause_known or pause != self._pause
            self._pause, self._pause_known = pause, True
        if changed and self._connection.up:
            self._send(PAUSE, shown_pause(pause), retain=True)

    def switched_off(self, labels: Collection[str]) -> None:
        """Publish which labels are listened for, where that changed."""
        with self._lock:
            before, self._off = self._off, frozenset(labels)
        if before != self._off:
            self._sending.put("switches")

    def say(self, topic: str, text: str) -> bool:
        """Send what a rule says, to a topic of the owner's; return whether the broker is there."""
        return self._connection.up and self._connection.publish(topic, text, retain=False) is not None

    def trouble(self) -> str:
        """Say why the broker is not reached, "" where it is."""
        return self._connection.trouble()

    def close(self) -> None:
        """Say that the device is offline, and disconnect."""
        self._closing.set()
        self._sending.close(_GRACE_S)
        self._answers.close(_GRACE_S)
        self._switches.close(_GRACE_S)
        self._connection.close(self._send("availability", "offline", retain=True) if self._connection.up else None)

    def _connected(self) -> None:
        self._greeted = False
        self._send("availability", "online", retain=True)
        if self._answer is not None:
            self._connection.subscribe(f"{self._device.base}/{ANSWER}")
        if self._switch is not None:
            for topic in COMMANDS:
                self._connection.subscribe(f"{self._device.base}/{topic}")
        if self._config.discovery and self._config.birth:
            self._connection.subscribe(self._config.birth)
        self._sending.put("connected")

    def _received(self, topic: str, payload: bytes, retained: bool) -> None:
        """Take the owner's word, or that Home Assistant has started; neither where it is retained and so may be old.

        What was retained before the device connected, it tells anyway.
        """
        if retained:
            return
        if topic != self._config.birth:
            behind = topic.removeprefix(f"{self._device.base}/")
            if behind == ANSWER:
                self._answers.put(payload)
            else:
                self._switches.put((behind, payload))
        elif payload == _BORN and not self._born:
            self._born = True
            self._sending.put("born")

    def _take_answer(self, payload: bytes) -> None:
        with self._lock:
            oldest = self._questions[-1].question_id if self._questions else ""
        assert self._answer is not None
        try:
            self._answer(*reply_of(payload, oldest))
        except (EdgeError, OSError) as error:
            self._trouble.warning("an answer by MQTT was refused: %s", error)

    def _take_switch(self, command: tuple[str, bytes]) -> None:
        """Do what a command says, and say at once how it is then."""
        assert self._switch is not None
        try:
            switch = switch_of(*command, self._keys)
            self.pause(self._switch(switch))
            if switch.label:
                one = {switch.label}
                self.switched_off(self._off - one if switch.on else self._off | one)
        except (EdgeError, OSError) as error:
            self._trouble.warning("a command by MQTT was refused: %s", error)

    def _label_topic(self, label: str) -> str:
        return f"label/{self._keys.get(label) or label_key(label)}"

    def _send(self, topic: str, payload: str | dict[str, Any], *, retain: bool) -> MQTTMessageInfo | None:
        text = payload if isinstance(payload, str) else json.dumps(payload, ensure_ascii=False)
        return self._connection.publish(f"{self._device.base}/{topic}", text, retain=retain)

    def _tell(self, news: _News) -> None:
        """Send what is new, as it is now. In a thread of its own: it writes a file."""
        if news == "born":
            self._closing.wait(max(0.0, self._next_birth - time.monotonic()))
            self._born, self._next_birth = False, time.monotonic() + _BORN_AGAIN_S
        if news == "connected":
            self._announced, self._greeted, self._listen_told = None, True, {}
        with self._lock:
            labels, self._sounding = self._labels, {one: by for one, by in self._sounding.items() if by}
        if labels is not None:
            self._keys = self._label_keys.announce(labels)
        if not self._connection.up or not self._greeted:
            return  # once it is connected, it is told all
        if news in ("connected", "born") or (news == "labels" and self._keys != self._announced):
            self._send_labels(afresh=news != "labels" or self._announced is None)
            self._send_last()
        self._send_switches()
        if news == "connected" and self._status is not None:
            self._send("status", self._status, retain=True)
        if news == "connected" and self._pause_known:
            self._send(PAUSE, shown_pause(self._pause), retain=True)
        if self._answer is not None and news in ("connected", "questions"):
            self._send_questions()

    def _send_switches(self) -> None:
        with self._lock:
            off = self._off
        found = {key: "OFF" if label in off else "ON" for label, key in self._keys.items()}
        for key, text in found.items():
            if self._listen_told.get(key) != text:
                self._send(listen_topic(key), text, retain=True)
        self._listen_told = found

    def _send_last(self) -> None:
        with self._lock:
            event, gone = self._last, self._last_is_gone
        if event is not None or gone:
            self._send("last", {"label": None} if event is None else event.to_json(), retain=True)

    def _send_questions(self) -> None:
        """Publish the oldest open question, and as events those that the broker did not get yet: none is too late."""
        with self._lock:
            questions = self._questions
        self._send(QUESTION, shown_questions(questions, self._device.base), retain=True)
        for question in self._told.new(questions):
            self._send(ASKED, asked(question, self._device.base), retain=False)

    def _send_labels(self, *, afresh: bool) -> None:
        """Announce the entities, take back those that are gone, and say which labels of those that are new are silent.

        ``afresh``: to somebody who was away, and may know entities that went meanwhile.
        """
        known = self._labels is not None
        keys, before = set(self._keys.values()), set((self._announced or {}).values())
        gone = self._label_keys.gone if known else set()
        gone = gone if afresh else gone & before
        with self._lock:
            sounding = {key for label, key in self._keys.items() if self._sounding.get(label)}
        self._announced = self._keys if known else None
        for key, text in (dict.fromkeys(keys - before - sounding, "OFF") | dict.fromkeys(gone, "")).items():
            self._send(f"label/{key}", text, retain=True)
        for key in gone:
            self._send(listen_topic(key), "", retain=True)
        if not self._config.discovery:
            return
        asks = self._answer is not None
        removed = discovery_of_gone(self._device, gone, asked=afresh and not asks and self._told.any_ever)
        documents = discovery(self._device, self._keys if known else None, asks=asks)
        if afresh:
            for topic, document in removed.items():
                self._announce(topic, json.dumps(document), retain=False)
        texts = {topic: json.dumps(document, ensure_ascii=False) for topic, document in documents.items()}
        for topic, text in (dict.fromkeys(removed, "") | texts).items():
            self._announce(topic, text, retain=True)

    def _announce(self, topic: str, text: str, *, retain: bool) -> None:
        self._connection.publish(f"{self._config.discovery}/{topic}", text, retain=retain)
