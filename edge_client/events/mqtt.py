"""Events to an MQTT broker, the sounds that the device knows, and how it is; docs/home-assistant.md has the topics."""

from __future__ import annotations

import json
import logging
import ssl
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edge_client.config.sections import MqttConfig
from edge_client.errors import ConfigError, EdgeError
from edge_client.events import Asked, Event, Health, Reply, Sink
from edge_client.events.delivery import Delivery
from edge_client.events.home_assistant import AnnouncedKeys, discovery, label_key, question_topics, sensor_topic
from edge_client.events.mqtt_questions import ANSWER, ASKED, QUESTION, asked, reply_of, shown
from edge_client.logs import RateLimitedLog
from edge_client.storage.database import FILE, Database

if TYPE_CHECKING:
    from paho.mqtt.client import Client, MQTTMessage, MQTTMessageInfo

log = logging.getLogger(__name__)

_KEEPALIVE_S = 30
_PAUSE_S = (1, 60)
_GRACE_S = 2.0
# Bytes of a packet that the broker sends: confirmations, and answers to questions, are small.
_LARGEST_PACKET = 1 << 14
# Messages that were sent and not yet confirmed; while the broker is away none are taken. An announcement is up to four
# for each label that there is or was.
_UNCONFIRMED = 2_000
# Stands among the keys of announced labels for the entities that ask.
_ASKS = "asks"
# Answers that may wait for the disk: whoever writes to the broker may send any number.
_ANSWERS = 8
# Home Assistant takes states of 255 characters.
_LONGEST = 250


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
        answer: Callable[[Reply], None] | None = None,
    ) -> None:
        """Begin to connect, in a thread of its own; a broker that is away is tried again after growing pauses.

        Without the state ``folder``, announced labels are forgotten at the end; without ``answer``, nothing is asked.
        Raises ConfigError if paho-mqtt is not installed, or too old.
        """
        self._config, self._device_id, self._name = config, device_id, name
        self._base = f"{config.topic}/{device_id}"
        self._announced = AnnouncedKeys(None if folder is None else Database(folder / FILE))
        self._announcing: Delivery[bool] = Delivery("Home Assistant's discovery", self._send_announcement)
        self._answer = answer
        self._answers: Delivery[bytes] = Delivery("an answer by MQTT", self._take_answer, _ANSWERS)
        self._questions: tuple[Asked, ...] = ()
        self._told: set[str] = set()
        self._labels: tuple[str, ...] | None = None
        self._last: Event | None = None
        # By label, the inputs that hear a sound which goes on: it is over once no input hears it.
        self._sounding: dict[str, set[str]] = {}
        self._health: Health | None = None
        self._lock = threading.Lock()
        self._trouble = RateLimitedLog(log)
        self._reason = "not connected yet"
        self._client = self._connect()

    def announce(self, labels: Sequence[str]) -> None:
        """Announce the sounds to Home Assistant."""
        with self._lock:
            self._labels = tuple(labels)
            gone = self._last is not None and self._last.kind == "detected" and self._last.label not in labels
            if gone:  # the broker retains it, and it may be a name that its owner took away
                self._last = None
        self._announcing.put(gone)

    def publish(self, event: Event) -> None:
        """Send an event, unless the broker is away."""
        with self._lock:
            self._last = event
        if not self._client.is_connected():
            self._trouble.warning("the MQTT broker %s is away and misses an event", self._config.host)
            return
        self._send("event", {"event_type": event.label, **event.to_json()}, retain=False)
        self._send_last()
        if event.kind == "detected":
            self._send(f"label/{label_key(event.label)}", "ON", retain=False)

    def follow(self, event: Event) -> None:
        """Say that a sound goes on, before its sensor switches itself off, or is over."""
        with self._lock:
            sounding = self._sounding.setdefault(event.label, set())
            (sounding.add if event.ended is None else sounding.discard)(event.input)
            is_last = self._last is not None and (self._last.time, self._last.label) == (event.time, event.label)
            if is_last and event.ended is not None:
                self._last = event
        if not self._client.is_connected():
            return
        self._send(f"label/{label_key(event.label)}", "ON" if sounding else "OFF", retain=False)
        if is_last and event.ended is not None:
            self._send_last()

    def ask(self, questions: Sequence[Asked]) -> None:
        """Publish the oldest open question, and each one that is new as an event."""
        with self._lock:
            before, self._questions = self._questions, tuple(questions)
        if before != tuple(questions) and self._client.is_connected():
            self._send_questions()

    def report(self, health: Health) -> None:
        """Publish the device's health, where it changed."""
        with self._lock:
            changed, self._health = health != self._health, health
        if changed and self._client.is_connected():
            self._send_status()

    def close(self) -> None:
        """Say that the device is offline, and disconnect."""
        self._announcing.close(_GRACE_S)
        self._answers.close(_GRACE_S)
        if self._client.is_connected():
            info = self._send("availability", "offline", retain=True)
            try:
                info.wait_for_publish(_GRACE_S)
            except (RuntimeError, ValueError) as error:
                log.info("the MQTT broker did not hear that this device goes offline: %s", error)
        self._client.disconnect()
        self._client.loop_stop()

    def _connect(self) -> Client:
        try:
            from paho.mqtt.client import Client
            from paho.mqtt.enums import CallbackAPIVersion
        except ImportError as error:
            raise ConfigError(
                f"[mqtt] needs paho-mqtt 2.0 or newer ({error}): pip install 'auricle[mqtt]', or remove the section"
            ) from error
        config = self._config
        client = _bounded(Client)(CallbackAPIVersion.VERSION2, client_id=f"auricle-{self._device_id}")
        if config.username:
            client.username_pw_set(config.username, config.password or None)
        if config.tls:
            try:
                client.tls_set_context(ssl.create_default_context(cafile=config.ca))
            except OSError as error:
                raise ConfigError(f"[mqtt] ca = {config.ca} cannot be read as certificates (PEM): {error}") from error
        client.will_set(f"{self._base}/availability", "offline", qos=1, retain=True)
        client.reconnect_delay_set(*_PAUSE_S)
        client.max_queued_messages_set(_UNCONFIRMED)
        client.on_connect = self._connected
        client.on_connect_fail = lambda *_: self._away(getattr(self._client, "failure", ""))
        client.on_disconnect = self._disconnected
        client.on_message = self._received
        client.connect_async(config.host, config.port, _KEEPALIVE_S)
        client.loop_start()
        return client

    def _connected(self, client: Client, _data: object, _flags: object, reason: Any, _properties: object) -> None:  # noqa: ANN401  (paho's)
        if reason.is_failure:
            self._away(f"it refuses this device: {reason}; see [mqtt] username and password")
            return
        self._reason = ""
        log.info("connected to the MQTT broker %s:%d", self._config.host, self._config.port)
        self._client = client
        self._send("availability", "online", retain=True)
        self._announcing.put(False)
        self._send_status()
        if self._answer is not None:
            client.subscribe(f"{self._base}/{ANSWER}", qos=1)
            self._send_questions()

    def _take_answer(self, payload: bytes) -> None:
        with self._lock:
            oldest = self._questions[-1].question_id if self._questions else ""
        assert self._answer is not None
        try:
            self._answer(reply_of(payload, oldest))
        except (EdgeError, OSError) as error:
            self._trouble.warning("an answer by MQTT was refused: %s", error)

    def _received(self, _client: Client, _data: object, message: MQTTMessage) -> None:
        """Take the owner's answer, unless it is retained and so may be old."""
        if not message.retain:
            self._answers.put(bytes(message.payload))

    def _disconnected(self, _client: Client, _data: object, _flags: object, reason: Any, _properties: object) -> None:  # noqa: ANN401  (paho's)
        if not reason.is_failure:
            return
        if self._reason:  # it never was connected: a broker that ends a connection at once does not say why
            self._away("it ends the connection; see [mqtt] port and tls, and the broker's log")
        else:
            self._reason = f"the connection was lost ({reason})"
            self._trouble.warning("lost the MQTT broker %s (%s); connecting again", self._config.host, reason)

    def _away(self, reason: str) -> None:
        self._reason = reason or "connecting again"
        self._trouble.warning("no MQTT broker at %s:%d: %s", self._config.host, self._config.port, self._reason)

    def trouble(self) -> str:
        """Say why the broker is not reached, "" where it is."""
        return self._reason and f"no MQTT broker at {self._config.host}:{self._config.port}: {self._reason}"

    def _send(self, topic: str, payload: str | dict[str, Any], *, retain: bool) -> MQTTMessageInfo:
        text = payload if isinstance(payload, str) else json.dumps(payload, ensure_ascii=False)
        return self._client.publish(f"{self._base}/{topic}", text, qos=1, retain=retain)

    def _send_last(self) -> None:
        with self._lock:
            event = self._last
        if event is not None:
            self._send("last", event.to_json(), retain=True)

    def _send_questions(self) -> None:
        """Publish the oldest open question, and as events those that the broker did not get yet: none is too late."""
        with self._lock:
            questions = self._questions
            new = [one for one in questions[::-1] if one.question_id not in self._told]
            self._told = {one.question_id for one in questions}
        self._send(QUESTION, shown(questions, self._base), retain=True)
        for question in new:
            self._send(ASKED, asked(question, self._base), retain=False)

    def _send_status(self) -> None:
        with self._lock:
            health = self._health
        if health is None:
            return
        report = {
            "problem": "ON" if health.problem else "OFF",
            "listening": "ON" if health.listening else "OFF",
            "what": health.problem[:_LONGEST] or "none",
            "error": health.error[:_LONGEST] or "none",
            "started": datetime.fromtimestamp(health.started, UTC).isoformat(timespec="seconds"),
        }
        self._send("status", {**report, **health.versions}, retain=True)

    def _send_announcement(self, last_is_gone: bool) -> None:
        """Say which sounds there are, and then the last one. In a thread of its own: it writes a file."""
        if not self._client.is_connected():
            return  # the connection will ask for it
        self._send_discovery()
        if last_is_gone:
            self._send("last", {"label": None}, retain=True)
        else:
            self._send_last()

    def _send_discovery(self) -> None:
        """Announce every entity, and take back those of labels that are gone."""
        with self._lock:
            labels = self._labels
        keys = [label_key(label) for label in labels or ()]
        # Before the first announcement the labels are not known, and none is gone.
        asks = self._answer is not None
        announced = {*keys, _ASKS} if asks else {*keys}
        gone = self._announced.add(announced) - announced if labels is not None else set()
        asked_before, gone = _ASKS in gone, gone - {_ASKS}
        for key, payload in {**dict.fromkeys(keys, "OFF"), **dict.fromkeys(gone, "")}.items():
            self._send(f"label/{key}", payload, retain=True)
        if not self._config.discovery:
            return
        documents = discovery(self._base, self._device_id, self._name, labels or (), asks=asks)
        payloads = {topic: json.dumps(document, ensure_ascii=False) for topic, document in documents.items()}
        payloads |= {sensor_topic(self._device_id, key): "" for key in gone}
        payloads |= dict.fromkeys(question_topics(self._device_id), "") if asked_before else {}
        for topic, payload in payloads.items():
            self._client.publish(f"{self._config.discovery}/{topic}", payload, qos=1, retain=True)


def _bounded(client: type[Client]) -> type[Client]:
    """Return a client that ends the connection when the broker begins a packet that is too large."""
    # paho has no bound of its own: it asks the socket for all that a packet's head announces, up to 256 MiB. MQTT 5's
    # "maximum packet size" is no more than a request to the broker. ``failure`` says why it could not connect, which
    # paho does not hand on.

    class BoundedClient(client):  # type: ignore[misc, valid-type]
        failure = ""

        def reconnect(self) -> Any:  # noqa: ANN401  (paho's)
            try:
                return super().reconnect()
            except OSError as error:
                self.failure = _failure(error)
                raise

        def _sock_recv(self, bufsize: int) -> bytes:
            if bufsize > _LARGEST_PACKET:
                raise ConnectionAbortedError(f"a packet of {bufsize} bytes; at most {_LARGEST_PACKET} are taken")
            received: bytes = super()._sock_recv(bufsize)
            return received

    return BoundedClient


def _failure(error: OSError) -> str:
    """Return why no connection could be made, with the way out."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate cannot be trusted ({error.verify_message}); see [mqtt] ca"
    return f"{error.strerror or error}; see [mqtt] host, port and tls"
