"""Removes what a device left with a broker: messages that are retained stay for ever, and with them its entities."""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Callable, Iterator

from edge_client.config.sections import MqttConfig
from edge_client.errors import EdgeError
from edge_client.events.home_assistant import Announced, discovery_of_home, home_base
from edge_client.events.mqtt_connection import Connection

_PATIENCE_S = 20.0
# A broker may hold back some of what is retained: it is looked at again until nothing is left.
_MOST_LOOKS = 20
_Found = queue.SimpleQueue[tuple[str, bytes, bool]]


def clear(config: MqttConfig, device_id: str) -> list[str]:
    """Remove all that is retained of a device that is not connected; return the topics.

    Raises ConfigError as Connection does; EdgeError if the broker is not reached, or does not answer.
    """
    device = Announced(device_id, "", f"{config.topic}/{device_id}")
    filters = [f"{device.base}/#"]
    if config.discovery:
        filters.append(f"{config.discovery}/+/{device.node}/+/config")
    removed: list[str] = []
    with _looking(config, f"{device_id}-clear") as (connection, found):
        for _ in range(_MOST_LOOKS):
            if not (left := _retained(connection, found, filters, f"{device.base}/clear")):
                break
            for topic in left:
                connection.publish(topic, "", retain=True)
            removed += left
    return removed


def clear_home(config: MqttConfig, home: str, device_id: str) -> None:
    """Remove a home that this device left, unless other devices of it are connected. Raises as :func:`clear`."""
    base = home_base(config.topic, home)
    mark = f"{base}/looks"
    with _looking(config, f"{device_id}-home") as (connection, found):
        there = _retained(connection, found, [f"{base}/device/+", mark], mark)
        if config.discovery and all(topic.startswith(f"{base}/device/{device_id}-") for topic in there):
            for topic in discovery_of_home(base, home):
                connection.publish(f"{config.discovery}/{topic}", "", retain=True)
            _retained(connection, found, [], mark)  # the broker has taken what came before it


@contextlib.contextmanager
def _looking(config: MqttConfig, name: str) -> Iterator[tuple[Connection, _Found]]:
    """Connect by a name of one's own; what is received lies in the queue."""
    found: _Found = queue.SimpleQueue()
    connection = Connection(config, f"auricle-{name}", lambda: None, lambda *one: found.put(one))
    connection.begin()
    try:
        _wait(lambda: connection.up, connection)
        yield connection, found
    finally:
        connection.close()


def _retained(connection: Connection, found: _Found, filters: list[str], mark: str) -> list[str]:
    """Subscribe, and return what is retained: what comes before a message of one's own to a subscribed topic."""
    for one in filters:
        connection.subscribe(one)
    connection.publish(mark, "look", retain=False)
    topics: list[str] = []
    while True:
        _wait(lambda: not found.empty(), connection)
        topic, payload, retained = found.get()
        if (topic, payload, retained) == (mark, b"look", False):
            return topics
        if retained and payload:
            topics.append(topic)


def _wait(until: Callable[[], bool], connection: Connection) -> None:
    end = time.monotonic() + _PATIENCE_S
    while not until():
        if time.monotonic() > end:
            trouble = connection.trouble() or f"the MQTT broker {connection.address} does not answer"
            raise EdgeError(f"{trouble}; nothing more was removed")
        time.sleep(0.01)
