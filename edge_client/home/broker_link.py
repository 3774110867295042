"""A device's link to its home by a broker: sends what its ears heard, and tells which event that was part of.

Where the broker is away, or does not answer, a hearing stands alone: no device becomes deaf by its home.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future

from edge_client.config import Config
from edge_client.config.sections import HomeConfig, MqttConfig
from edge_client.errors import EdgeError
from edge_client.events import Event, Sink
from edge_client.events.home_assistant import discovery_of_home, home_base
from edge_client.events.mqtt_clear import clear_home
from edge_client.events.mqtt_connection import Connection
from edge_client.home.arbitration import Arbiter, Hearing, HomeEvent, Over, Purpose, read_message
from edge_client.home.input_levels import Background
from edge_client.logs import RateLimitedLog
from edge_client.storage.database import Database

log = logging.getLogger(__name__)

_GRACE_S = 2.0
_HOMES = "homes"  # the note of those that this device is and was in
_MOST_DEVICES, _LONGEST_NAME = 64, 400


class HomeLink:
    """One program's: the daemon's, and that of the wake words. Its methods never wait for the broker."""

    def __init__(
        self,
        home: HomeConfig,
        mqtt: MqttConfig,
        device: tuple[str, str],
        program: str,
        heard: Callable[[HomeEvent], None] | None = None,
    ) -> None:
        """Begin to connect.

        Args:
            home: The home's name, and how long it waits for its ears.
            mqtt: The broker.
            device: The device's identifier, and its name for people.
            program: Of several on one device; each has an identifier of its own.
            heard: Takes each event of the home, in a thread of the link.

        Raises ConfigError if paho-mqtt is not installed, or too old.
        """
        self._device, self._name = f"{device[0]}-{program}", device[1]
        self._topic, self._prefix, self._home = home_base(mqtt.topic, home.name), mqtt.discovery, home.name
        self._heard = heard
        self._arbiter = Arbiter(self._device, home.window_s)
        self._waiting: dict[str, Future[HomeEvent]] = {}
        self._devices: dict[str, str] = {}
        self._changed, self._stop = threading.Condition(), False
        self._trouble = RateLimitedLog(log)
        here = f"{self._topic}/device/{self._device}"
        self._connection = Connection(mqtt, f"auricle-{self._device}", self._connected, self._received, (here, ""))
        self._thread = threading.Thread(target=self._run, name="home", daemon=True)
        self._thread.start()
        self._connection.begin()

    @classmethod
    def of(
        cls, config: Config, device_id: str, program: str, heard: Callable[[HomeEvent], None] | None = None
    ) -> HomeLink | None:
        """Return the link of a configured device; None where it is in no home."""
        if config.home is None or config.mqtt is None:
            return None
        return cls(config.home, config.mqtt, (device_id, config.device.name), program, heard)

    @property
    def devices(self) -> list[str]:
        """Names of the devices that are connected now."""
        with self._changed:
            return sorted(set(self._devices.values()))

    def trouble(self) -> str:
        """Say why the broker is not reached, "" where it is."""
        return self._connection.trouble()

    def say(self, purpose: Purpose, event: Event, ear: str, snr_db: float) -> Future[HomeEvent]:
        """Tell the home what an ear heard; the result is the home's event that it was part of.

        ``ear``: the input's name, "" where the device has one alone; ``snr_db``: of the event above its background.
        """
        name = f"{self._name}: {ear}" if ear else self._name
        ear = self._ear(ear)
        hearing = Hearing(
            *(uuid.uuid4().hex, purpose, event.label, self._device, ear, name, snr_db, event.level_db, event.score)
        )
        future: Future[HomeEvent] = Future()
        if not self._connection.up:
            alone = HomeEvent((hearing,))
            future.set_result(alone)
            if purpose == "event" and self._heard is not None:
                self._heard(alone)
            return future
        with self._changed:
            self._waiting[hearing.hearing_id] = future
            self._arbiter.sent(hearing, time.monotonic())
            self._changed.notify()
        self._connection.publish(self._topic, hearing.to_message(), retain=False)
        return future

    def is_best(self, event: HomeEvent, ear: str) -> bool:
        """Return whether an ear of this program heard an event best."""
        return event.best.ear == self._ear(ear)

    def close(self) -> None:
        """Leave the home; what waits stands alone."""
        with self._changed:
            self._stop = True
            self._changed.notify()
        self._thread.join(_GRACE_S)
        here = f"{self._topic}/device/{self._device}"
        self._connection.close(self._connection.publish(here, "", retain=True) if self._connection.up else None)

    def _ear(self, ear: str) -> str:
        return f"{self._device}/{ear}"

    def _connected(self) -> None:
        with self._changed:
            self._devices.clear()
        self._connection.subscribe(self._topic)
        self._connection.subscribe(f"{self._topic}/device/+")
        self._connection.publish(f"{self._topic}/device/{self._device}", self._name, retain=True)
        if self._prefix:
            for topic, document in discovery_of_home(self._topic, self._home).items():
                self._connection.publish(f"{self._prefix}/{topic}", json.dumps(document), retain=True)

    def _received(self, topic: str, payload: bytes, retained: bool) -> None:
        if topic != self._topic:
            self._note_device(topic.rpartition("/")[2], payload)
        elif not retained:
            try:
                self._take(read_message(payload))
            except EdgeError as error:
                self._trouble.warning("%s", error)

    def _note_device(self, device: str, payload: bytes) -> None:
        with self._changed:
            if not payload:
                self._devices.pop(device, None)
            elif device in self._devices or len(self._devices) < _MOST_DEVICES:
                self._devices[device] = payload[:_LONGEST_NAME].decode(errors="replace")

    def _take(self, message: Hearing | Over) -> None:
        event = None
        with self._changed:
            if isinstance(message, Over):
                event = self._arbiter.end(message)
            else:
                self._arbiter.hear(message, time.monotonic())
                self._changed.notify()
        if event is not None:
            self._tell(event, publish=isinstance(message, Over) and message.device == self._device)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait(self._arbiter.pause_s(time.monotonic()))
                if self._stop:
                    return
                now_s = time.monotonic()
                over, lost = self._arbiter.to_say(now_s), self._arbiter.lost(now_s)
            for one in over:
                self._connection.publish(self._topic, one.to_message(), retain=False)
            for event in lost:
                self._tell(event, publish=event.best.device == self._device)

    def _tell(self, event: HomeEvent, *, publish: bool) -> None:
        if publish and event.best.purpose == "event" and self._connection.up:
            text = json.dumps({"event_type": "heard", **event.to_json()}, ensure_ascii=False)
            self._connection.publish(f"{self._topic}/event", text, retain=False)
        with self._changed:
            futures = [self._waiting.pop(one.hearing_id, None) for one in event.heard]
        for future in filter(None, futures):
            future.set_result(event)
        if event.best.purpose == "event" and self._heard is not None:
            self._heard(event)


class HomeSink(Sink):
    """Sends detections with their signal-to-noise ratio."""

    def __init__(self, link: HomeLink) -> None:
        self.link = link
        self._backgrounds: defaultdict[str, Background] = defaultdict(Background)

    def level(self, heard_by: str, level_db: float, seconds: float) -> None:
        """Take the level of an input for its background."""
        self._backgrounds[heard_by].take(level_db, seconds)

    def publish(self, event: Event) -> None:
        """Tell what was detected; sounds without a name are nobody else's."""
        if event.kind == "detected":
            self.link.say("event", event, event.input, self._backgrounds[event.input].snr_db(event.level_db))

    def close(self) -> None:
        """Leave the home."""
        self.link.close()


def settle_homes(config: Config, database: Database, device_id: str) -> threading.Thread | None:
    """Remember the home of the configuration; leave those before it, in a thread that is returned, if there are any.

    Without a broker they are left at a later start. Raises StateError, OSError as Database.
    """
    before: list[str] = database.note(_HOMES) or []
    now = [] if config.home is None else [config.home.name]
    left = [name for name in before if name not in now]
    if left + now != before:
        database.set_note(_HOMES, left + now)
    if not left or config.mqtt is None:
        return None
    broker = config.mqtt

    def leave() -> None:
        try:
            for name in left:
                clear_home(broker, name, device_id)
            database.set_note(_HOMES, now or None)
        except (EdgeError, OSError) as error:
            log.warning("Home Assistant may still show the home %s, which this device left: %s", left[0], error)

    thread = threading.Thread(target=leave, name="home left", daemon=True)
    thread.start()
    return thread
