"""A client of an MQTT broker by paho-mqtt, within bounds that it has not itself; paho loads at first use."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

from edge_client.config.sections import MqttConfig
from edge_client.errors import ConfigError

if TYPE_CHECKING:
    from paho.mqtt.client import Client

_KEEPALIVE_S = 30
# Bytes of a packet that the broker sends: confirmations, and answers to questions, are small.
_LARGEST_PACKET = 1 << 14


def open_client(config: MqttConfig, client_id: str) -> Any:  # noqa: ANN401  (paho's, and what _bounded adds)
    """Return a client with the device's login, for :meth:`begin`.

    Raises ConfigError if paho-mqtt is not installed, or too old, or certificates cannot be read.
    """
    try:
        from paho.mqtt.client import Client
        from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
    except ImportError as error:
        raise ConfigError(
            f"[mqtt] needs paho-mqtt 2.0 or newer ({error}): pip install 'auricle[mqtt]', or remove the section"
        ) from error
    client = _bounded(Client)(CallbackAPIVersion.VERSION2, client_id, protocol=MQTTProtocolVersion.MQTTv5)
    if config.username:
        client.username_pw_set(config.username, config.password or None)
    if config.tls:
        try:
            client.tls_set_context(ssl.create_default_context(cafile=config.ca))
        except OSError as error:
            raise ConfigError(f"[mqtt] ca = {config.ca} cannot be read as certificates (PEM): {error}") from error
    return client


def _bounded(client: type[Client]) -> type[Client]:
    """Return a client that ends the connection when the broker begins a packet that is too large."""
    # paho has no bound of its own: it asks the socket for all that a packet's head announces, up to 256 MiB. MQTT 5's
    # "maximum packet size" is no more than a request to the broker. ``failure`` says why it could not connect, which
    # paho does not hand on.

    class BoundedClient(client):  # type: ignore[misc, valid-type]
        failure = ""

        def begin(self, host: str, port: int) -> None:
            """Begin to connect in a thread of its own, to no session that an earlier connection left."""
            from paho.mqtt.packettypes import PacketTypes
            from paho.mqtt.properties import Properties

            asked: Any = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            asked.MaximumPacketSize = _LARGEST_PACKET
            self.connect_async(host, port, _KEEPALIVE_S, clean_start=True, properties=asked)
            self.loop_start()

        def speak_3_1_1(self) -> None:
            """Connect by MQTT 3.1.1 from now on."""
            from paho.mqtt.enums import MQTTProtocolVersion

            self._protocol, self._clean_session = MQTTProtocolVersion.MQTTv311, True

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
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate cannot be trusted ({error.verify_message}); see [mqtt] ca"
    return f"{error.strerror or error}; see [mqtt] host, port and tls"
