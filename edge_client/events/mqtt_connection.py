"""The connection to an MQTT broker, made anew after growing pauses; whoever publishes never waits for it.

It speaks MQTT 5, in which a broker says why it ends a connection or refuses a message, and MQTT 3.1.1 to a broker that
knows no other.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from edge_client.config.sections import MqttConfig
from edge_client.events.mqtt_client import open_client
from edge_client.logs import RateLimitedLog

if TYPE_CHECKING:
    from paho.mqtt.client import Client, MQTTMessage, MQTTMessageInfo

log = logging.getLogger(__name__)

_PAUSE_S = (1, 60)
# A connection that ended sooner was none: the pauses after such ones grow too, up to the longest. After a few of them
# somebody must be told.
_SHORT_S, _LONGEST_PAUSE_S, _TELLING_PAUSE_S = 60.0, 300, 8
_GRACE_S = 2.0
# Of a packet's head, at most, beside its topic.
_HEAD_BYTES = 16
# Messages that were sent and not yet confirmed; while the broker is away none are taken. An announcement is up to four
# for each label that there is or was.
_UNCONFIRMED = 2_000
_TWINS = (
    "does another client have this device's identity, such as a board with a copy of its memory card? Stop one of "
    "both, and remove identity.json and identity.json.copy from its state folder"
)
_WAYS_OUT = {
    "Bad user name or password": "see [mqtt] username and password",
    "Not authorized": "see [mqtt] username and password, and the broker's access list (ACL)",
    "Retain not supported": "allow retained messages in the broker (Mosquitto: retain_available): Home Assistant finds "
    "the device by them",
    "Packet too large": "allow larger packets in the broker (Mosquitto: max_packet_size)",
    "Session taken over": _TWINS,
}
_NOT_YET = "not connected yet"
_OLD_BROKER = "Unsupported protocol version"


class Connection:
    """A connection that is there as long as the broker lets it be."""

    def __init__(
        self,
        config: MqttConfig,
        client_id: str,
        connected: Callable[[], None],
        received: Callable[[str, bytes, bool], None],
        will: tuple[str, str] | None = None,
    ) -> None:
        """Prepare; :meth:`begin` connects.

        Args:
            config: The broker's address and the device's login.
            client_id: By which the broker knows the device; of two connections with one, it ends the older.
            connected: Called after each time that a connection was made.
            received: Takes topic, payload and whether the broker had retained it, of each message.
            will: Topic and payload of what the broker publishes, retained, when the connection is lost.

        Raises ConfigError if paho-mqtt is not installed, or too old.
        """
        self._config = config
        self._connected_to, self._take = connected, received
        self._trouble = RateLimitedLog(log)
        self._reason = _NOT_YET
        self._since: float | None = None
        self._pause_s = _PAUSE_S[0]
        self._repeats = False  # whether connections are made and end, for a reason that somebody must remove
        # Topics by message that is not confirmed, and why the broker does not take some.
        self._sent: dict[int | None, str] = {}
        self._refused: dict[str, str] = {}
        self._largest_packet: int | None = None
        self._client = self._open(client_id, will)

    def begin(self) -> None:
        """Begin to connect, in a thread of its own, in which the callbacks run."""
        self._client.begin(self._config.host, self._config.port)

    @property
    def address(self) -> str:
        """Host and port of the broker."""
        return f"{self._config.host}:{self._config.port}"

    @property
    def up(self) -> bool:
        """Whether it is connected now."""
        return self._since is not None

    def publish(self, topic: str, payload: str, *, retain: bool) -> MQTTMessageInfo | None:
        """Send a message; None where it is larger than the broker takes."""
        size = len(payload.encode()) + len(topic.encode()) + _HEAD_BYTES
        if self._largest_packet is not None and size > self._largest_packet:
            self._refuse(topic, f"Packet too large: {size} bytes, it takes {self._largest_packet}", "Packet too large")
            return None
        info: MQTTMessageInfo = self._client.publish(topic, payload, qos=1, retain=retain)
        if len(self._sent) > _UNCONFIRMED:
            self._sent.clear()
        self._sent[info.mid] = topic
        return info

    def subscribe(self, topic: str) -> None:
        """Have messages of a topic sent to ``received``; as long as the connection lasts."""
        _, mid = self._client.subscribe(topic, qos=1)
        self._sent[mid] = topic

    def trouble(self) -> str:
        """Say why the broker is not reached, or does not take what is sent; "" where it does."""
        since, refused = self._since, next(iter(self._refused.items()), None)
        if since is None:
            return f"no connection to the MQTT broker {self.address}: {self._reason}"
        if self._repeats and not self._is_settled(since):
            return f"the MQTT broker {self.address} ends each connection: {self._reason}"
        return "" if refused is None else f"the MQTT broker {self.address} refuses {refused[0]}: {refused[1]}"

    def close(self, last: MQTTMessageInfo | None = None) -> None:
        """Disconnect, after a last message was sent, if it is within seconds."""
        if last is not None and self.up:
            try:
                last.wait_for_publish(_GRACE_S)
            except (RuntimeError, ValueError) as error:
                log.info("the MQTT broker did not hear that this device goes offline: %s", error)
        self._client.disconnect()
        self._client.loop_stop()

    def _open(self, client_id: str, will: tuple[str, str] | None) -> Any:  # noqa: ANN401  (paho's)
        client = open_client(self._config, client_id)
        if will is not None:
            client.will_set(*will, qos=1, retain=True)
        client.reconnect_delay_set(*_PAUSE_S)
        client.max_queued_messages_set(_UNCONFIRMED)
        client.on_connect, client.on_disconnect = self._connected, self._disconnected
        client.on_connect_fail = lambda failed, _: self._away(failed.failure)
        client.on_message = self._received
        client.on_publish, client.on_subscribe = self._confirmed, self._subscribed
        return client

    def _connected(self, client: Any, _data: object, _flags: object, reason: Any, properties: Any) -> None:  # noqa: ANN401  (paho's)
        if reason.is_failure:
            if str(reason) == _OLD_BROKER:
                client.speak_3_1_1()
            way_out = _WAYS_OUT.get(str(reason), "see the broker's log")
            self._away(f"it refuses this device: {reason}; {way_out}")
            return
        self._client = client
        self._largest_packet = getattr(properties, "MaximumPacketSize", None)
        self._refused.clear()
        self._sent.clear()
        self._since = time.monotonic()
        if not self._repeats:
            log.info("connected to the MQTT broker %s", self.address)
        self._connected_to()

    def _disconnected(self, client: Client, _data: object, _flags: object, reason: Any, _properties: object) -> None:  # noqa: ANN401  (paho's)
        since, self._since = self._since, None
        if not reason.is_failure:
            return
        if since is None:
            if self._reason == _NOT_YET:
                self._away("it ends the connection; see [mqtt] port and tls, and the broker's log")
            return
        settled = self._is_settled(since)
        self._pause_s = _PAUSE_S[0] if settled else min(2 * self._pause_s, _LONGEST_PAUSE_S)
        client.reconnect_delay_set(self._pause_s, max(self._pause_s, _PAUSE_S[1]))
        way_out = _WAYS_OUT.get(str(reason), _TWINS if self._pause_s >= _TELLING_PAUSE_S else "")
        self._repeats = bool(way_out)
        self._reason = f"the connection was lost ({reason})" + (way_out and f"; {way_out}")
        self._trouble.warning("lost the MQTT broker %s (%s); connecting again", self._config.host, way_out or reason)

    def _is_settled(self, since: float) -> bool:
        """Return whether a connection lasts so long that it is none of those that begin and end in turn."""
        return time.monotonic() - since > max(_SHORT_S, 2.0 * self._pause_s)

    def _away(self, reason: str) -> None:
        self._reason = reason or "connecting again"
        self._trouble.warning("no connection to the MQTT broker %s: %s", self.address, self._reason)

    def _received(self, _client: Client, _data: object, message: MQTTMessage) -> None:
        self._take(message.topic, bytes(message.payload), bool(message.retain))

    def _confirmed(self, _client: Client, _data: object, mid: int, reason: Any, _properties: object) -> None:  # noqa: ANN401  (paho's)
        topic = self._sent.pop(mid, "a message")
        if reason.is_failure:
            self._refuse(topic, str(reason), str(reason))
        else:
            self._refused.pop(topic, None)

    def _subscribed(self, _client: Client, _data: object, mid: int, reasons: Any, _properties: object) -> None:  # noqa: ANN401  (paho's)
        topic = self._sent.pop(mid, "a subscription")
        for reason in reasons:
            if reason.is_failure:
                self._refuse(topic, str(reason), str(reason))

    def _refuse(self, topic: str, why: str, reason: str) -> None:
        way_out = _WAYS_OUT.get(reason, "see the broker's log")
        self._refused[topic] = f"{why}; {way_out}"
        self._trouble.warning("the MQTT broker %s refuses %s: %s; %s", self.address, topic, why, way_out)
