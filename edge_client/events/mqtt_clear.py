"""Removes what a device left with a broker: messages that are retained stay for ever, and with them its entities."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable

from edge_client.config.sections import MqttConfig
from edge_client.errors import EdgeError
from edge_client.events.home_assistant import Announced
from edge_client.events.mqtt_connection import Connection

_PATIENCE_S = 20.0
# A broker may hold back some of what is retained: it is looked at again until nothing is left.
_MOST_LOOKS = 20


def clear(config: MqttConfig, device_id: str) -> list[str]:
    """Remove all that is retained of a device that is not connected; return the topics.

    Raises ConfigError as Connection does; EdgeError if the broker is not reached, or does not answer.
    """
    device = Announced(device_id, "", f"{config.topic}/{device_id}")
    filters = [f"{device.base}/#"]
    if config.discovery:
        filters.append(f"{config.discovery}/+/{device.node}/+/config")
    found: queue.SimpleQueue[tuple[str, bytes, bool]] = queue.SimpleQueue()
    connection = Connection(config, f"auricle-{device_id}-clear", lambda: None, lambda *one: found.put(one))
    removed: list[str] = []
    connection.begin()
    try:
        _wait(lambda: connection.up, connection)
        for _ in range(_MOST_LOOKS):
            for one in filters:
                connection.subscribe(one)
            if not (left := _retained(connection, found, f"{device.base}/clear")):
                break
            for topic in left:
                connection.publish(topic, "", retain=True)
            removed += left
    finally:
        connection.close()
    return removed


def _retained(connection: Connection, found: queue.SimpleQueue[tuple[str, bytes, bool]], mark: str) -> list[str]:
    """Return what is retained of the topics that were just subscribed: what comes before a message of one's own."""
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
