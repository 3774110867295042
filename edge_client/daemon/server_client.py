"""The device's side of the protocol (docs/protocol.md): it asks, the aggregator answers; no port is open here."""

from __future__ import annotations

import ipaddress
import json
from typing import TYPE_CHECKING, Any, TypeVar

from edge_client.errors import LinkError, RefusedError, UnreachableError
from edge_client.storage.device_state import Identity
from fleet_protocol.errors import MessageError
from fleet_protocol.messages import Enrolled, Enrolment, ErrorReply, Learned, Receipt, Work, parse, to_json
from fleet_protocol.tensors import digest

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")

# Seconds for connecting, and for an answer that is not a long poll: a busy aggregator may be writing a large upload.
_CONNECT_S = 10.0
_ANSWER_S = 60.0
# A proxy in between says these when the aggregator is away; 429 and 408 ask for patience.
_PATIENCE = {408, 425, 429, 500, 502, 503, 504}
# As httpx names what goes through one transport.
_EVERY_ADDRESS = ("all://", "http://", "https://")
# Names of home networks: mDNS (RFC 6762), RFC 8375, the reserved .internal, and what many routers use.
_LOCAL_NAMES = (".local", ".home.arpa", ".internal", ".lan", ".localhost")


class ServerClient:
    """Talks to one aggregator as one device. Every method raises UnreachableError or RefusedError."""

    def __init__(self, url: str, identity: Identity) -> None:
        """Prepare; nothing is sent yet.

        Raises:
            LinkError: the address cannot be one.
        """
        import httpx

        self._authorization = {"Authorization": f"Bearer {identity.secret}"}
        try:
            # The environment's proxies lead out of the owner's network, and know nothing within it.
            mounts = dict.fromkeys(_EVERY_ADDRESS) if is_local(httpx.URL(url).host) else None
            self._client = httpx.Client(
                base_url=url, timeout=httpx.Timeout(_ANSWER_S, connect=_CONNECT_S), mounts=mounts
            )
        except (httpx.InvalidURL, ValueError) as error:
            raise LinkError(f"[server] url = {url!r} is not an address: {error}") from error

    def enrol(self, message: Enrolment, token: str) -> Enrolled:
        """Say who this device is; saying it again changes nothing."""
        answer = self._send("POST", "/v1/devices", {"Authorization": f"Bearer {token}"}, json=to_json(message))
        return self._read(Enrolled, answer)

    def work(self, wait_s: float) -> Work | None:
        """Ask for work; the answer may take up to ``wait_s`` seconds. None: there is none."""
        answer = self._send("GET", "/v1/work", params={"wait_s": wait_s}, timeout=_timeout(wait_s + _ANSWER_S))
        return None if answer.status_code == 204 else self._read(Work, answer)

    def fetch(self, sha256: str) -> bytes:
        """Download a blob and check it against its name."""
        data = self._send("GET", f"/v1/blobs/{sha256}").content
        if digest(data) != sha256:
            raise UnreachableError(f"blob {sha256} arrived damaged ({len(data)} bytes)")
        return data

    def upload(self, round_id: int, data: bytes) -> Receipt:
        """Send a round's upload; sending the same bytes again changes nothing."""
        headers = {"Content-Type": "application/octet-stream", "X-Content-SHA256": digest(data)}
        answer = self._send("PUT", f"/v1/rounds/{round_id}/update", headers, content=data)
        return self._read(Receipt, answer)

    def learned(self, message: Learned) -> None:
        """Report that a round's result was learned."""
        self._send("POST", f"/v1/rounds/{message.round_id}/learned", json=to_json(message))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _send(self, method: str, path: str, headers: dict[str, str] | None = None, **body: Any) -> httpx.Response:  # noqa: ANN401
        import httpx

        try:
            answer = self._client.request(method, path, headers=self._authorization | (headers or {}), **body)
        except httpx.HTTPError as error:
            raise UnreachableError(
                f"the aggregator at {self._client.base_url} does not answer: {error or type(error).__name__}"
            ) from error
        if answer.is_success:
            return answer
        if answer.status_code in _PATIENCE:
            raise UnreachableError(f"the aggregator answered {answer.status_code} to {method} {path}")
        try:
            detail = parse(ErrorReply, answer.json()).error
        except (ValueError, MessageError) as error:
            raise UnreachableError(
                f"{self._client.base_url} answered {answer.status_code} to {method} {path}, but not as an aggregator "
                "does; check [server] url"
            ) from error
        raise RefusedError(answer.status_code, detail.code, detail.message)

    def _read(self, kind: type[T], answer: httpx.Response) -> T:
        try:
            return parse(kind, answer.json())
        except (json.JSONDecodeError, MessageError) as error:
            raise UnreachableError(f"{self._client.base_url} answered what no aggregator would: {error}") from error


def is_local(host: str) -> bool:
    """Tell whether a host is on this machine or in the owner's own network, as far as its name or number says."""
    try:
        return ipaddress.ip_address(host).is_private  # loopback and link-local ones are, too
    except ValueError:
        return "." not in host or host.lower().endswith(_LOCAL_NAMES)


def _timeout(seconds: float) -> httpx.Timeout:
    import httpx

    return httpx.Timeout(seconds, connect=_CONNECT_S)
