"""The device's side of the protocol (docs/protocol.md): it asks, the aggregator answers; no port is open here."""

from __future__ import annotations

import email.utils
import hashlib
import ipaddress
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from fleet_protocol.client.answers import Bounds, Deadline, read_message, shorten
from fleet_protocol.client.certificates import refusal, trust, trust_nobody_yet
from fleet_protocol.client.identity import Identity
from fleet_protocol.errors import LinkError, MessageError, RefusedError, UnreachableError, without_requests
from fleet_protocol.ground.atomic_files import written_durably
from fleet_protocol.messages import rest as messages
from fleet_protocol.messages.private_rounds import EncryptedShares, RevealedShares, RoundKeys
from fleet_protocol.numbers.tensors import digest

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")

_CONNECT_S = 10.0
# Bytes of a blob or an upload that are in memory at once.
_PIECE = 1 << 16
# A proxy in between says these when the aggregator is away; 429 and 408 ask for patience.
_PATIENCE = {408, 425, 429, 500, 502, 503, 504, 507}
# Names of home networks: mDNS (RFC 6762), RFC 8375, the reserved .internal, and what many routers use.
_LOCAL_NAMES = (".local", ".home.arpa", ".internal", ".lan", ".localhost")


class ServerClient:
    """Talks to one aggregator as one device. Every method raises UnreachableError or RefusedError."""

    def __init__(
        self, url: str, identity: Identity | None, bounds: Bounds | None = None, authority: str | None = None
    ) -> None:
        """Prepare; nothing is sent yet. Raises LinkError if the address cannot be one, or the authority none.

        Args:
            identity: who asks; None: a stranger, who sends no secret and does not verify the aggregator's certificate.
            authority: certificate of the authority that the device pinned, PEM; None: the public ones are trusted.
        """
        self.bounds = Bounds() if bounds is None else bounds
        # On the aggregator's clock at its last answer, seconds since 1970; None where it did not say.
        self.server_time: float | None = None
        self._authority = authority
        self._verified_by = trust_nobody_yet() if identity is None else trust(authority)
        # Nothing is asked for compressed: a small answer could expand to any size.
        self._headers = {"Accept-Encoding": "identity"}
        if identity is not None:
            self._headers["Authorization"] = f"Bearer {identity.secret}"
        self._deadline = Deadline()
        self._client = self._open(url)

    def _open(self, url: str) -> httpx.Client:
        """Return what speaks to one address. Raises LinkError: it cannot be one."""
        import httpx

        try:
            return httpx.Client(
                base_url=url,
                headers=self._headers,
                limits=httpx.Limits(max_connections=1),
                # The environment's proxies lead out of the owner's network, and know nothing within it.
                trust_env=not is_local(httpx.URL(url).host),
                verify=self._verified_by,
            )
        except ImportError as error:
            raise LinkError(
                f"the way to {url} is a SOCKS proxy, as ALL_PROXY or HTTPS_PROXY say, and this needs the package "
                "socksio (pip install socksio); or name the host in NO_PROXY"
            ) from error
        except (httpx.InvalidURL, ValueError) as error:
            raise LinkError(f"[server] url = {url!r} is not an address: {error}") from error

    def authority(self) -> str:
        """Return the certificate of the aggregator's own authority, PEM, as whoever answers says."""
        return self._read(messages.Authority, self._ask("GET", "/v1/authority")).certificate

    def check_enrolment(self) -> None:
        """Ask what the aggregator knows of this device, to see whether it does."""
        self._read(messages.DeviceName, self._ask("GET", "/v1/devices/me"))

    def leave(self) -> None:
        """Leave the fleet."""
        self._tell("DELETE", "/v1/devices/me")

    def bundle(self, path: Path) -> None:
        """Download the bundle of the fleet's shared model; what is shown may be an invitation instead of a secret."""
        with written_durably(path) as file, self._asked("GET", "/v1/model/bundle") as answer:
            for piece in self._pieces(answer, self.bounds.model_bytes):
                file.write(piece)

    def public_set(self) -> str:
        """Return the digest of the fleet's public set."""
        return self._read(messages.PublicSetName, self._ask("GET", "/v1/public-set")).sha256

    def enrol(self, message: messages.Enrolment, token: str) -> messages.Enrolled:
        """Say who this device is; saying it again changes nothing."""
        headers = {"Authorization": f"Bearer {token}"}
        return self._read(
            messages.Enrolled, self._ask("POST", "/v1/devices", headers=headers, json=messages.to_json(message))
        )

    def work(self, wait_s: float) -> messages.Work | None:
        """Ask for work; the answer may take up to ``wait_s`` seconds. None: there is none."""
        with self._asked("GET", "/v1/work", wait_s, params={"wait_s": wait_s}) as answer:
            found = self._content(answer)
        return self._read(messages.Work, found) if found else None

    def fetch(self, sha256: str, path: Path, largest: int, beat: Callable[[], None]) -> None:
        """Download a blob, refused from so many bytes on, into a file and check it against its name."""
        found, size = hashlib.sha256(), 0
        with written_durably(path) as file, self._asked("GET", f"/v1/blobs/{sha256}") as answer:
            for piece in self._pieces(answer, largest):
                beat()
                size += len(piece)
                found.update(piece)
                file.write(piece)
            if found.hexdigest() != sha256:
                raise UnreachableError(f"blob {sha256} arrived damaged ({size} bytes)")

    def upload(self, round_id: int, data: bytes, beat: Callable[[], None]) -> messages.Receipt:
        """Send a round's upload; sending the same bytes again changes nothing. ``beat`` is called as it leaves."""
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Length": str(len(data)),
            "X-Content-SHA256": digest(data),
        }
        address = f"/v1/rounds/{round_id}/update"
        sending = self.bounds.seconds_for(len(data))
        return self._read(
            messages.Receipt, self._ask("PUT", address, sending, headers=headers, content=_in_pieces(data, beat))
        )

    def answer(self, round_id: int, stage: str, message: RoundKeys | EncryptedShares | RevealedShares) -> None:
        """Answer a stage of a private round; the same again changes nothing."""
        self._tell("PUT", f"/v1/rounds/{round_id}/private/{stage}", json=messages.to_json(message))

    def learned(self, message: messages.Learned) -> None:
        """Report that a round's result was learned."""
        self._tell("POST", f"/v1/rounds/{message.round_id}/learned", json=messages.to_json(message))

    def interrupt(self) -> None:
        """Cut what is being asked, such as a long poll: it raises UnreachableError. Any thread may call this."""
        self._deadline.set(0.0)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        self._deadline.close()

    def _ask(self, method: str, path: str, extra_s: float = 0.0, **body: Any) -> bytes:  # noqa: ANN401
        """Send a request and return the answer's body, which is JSON or nothing; see :meth:`_asked`."""
        with self._asked(method, path, extra_s, **body) as answer:
            return self._content(answer)

    def _tell(self, method: str, path: str, **body: Any) -> None:  # noqa: ANN401
        """Send what an aggregator takes without a word: other programs, such as a portal to log in at, have some."""
        if content := self._ask(method, path, **body):
            said = shorten(content.decode(errors="replace"))[:80]
            raise UnreachableError(
                f"{self._client.base_url} answered {method} {path} with {said!r}, and not as an aggregator does; does "
                "this network ask to log in first? Else check [server] url"
            )

    @contextmanager
    def _asked(self, method: str, path: str, extra_s: float = 0.0, **body: Any) -> Iterator[httpx.Response]:  # noqa: ANN401
        """Send a request, whose answer may take so much longer; of the answer that it yields the headers are read."""
        import httpx

        timeout = httpx.Timeout(self.bounds.seconds + extra_s, connect=_CONNECT_S)
        self._deadline.set(self.bounds.seconds + extra_s)
        try:
            with self._client.stream(
                method, path, timeout=timeout, extensions={"trace": self._deadline.trace}, **body
            ) as answer:
                self.server_time = _time(answer.headers.get("Date", ""))
                self._client.cookies.clear()  # nobody needs one, and nothing bounds their number
                if not answer.is_success:
                    self._refuse(answer, f"{method} {path}")
                yield answer
        except httpx.HTTPError as error:
            if (refused := refusal(error, str(self._client.base_url), self._authority)) is not None:
                raise refused from error
            late = f"took longer than {self.bounds.seconds + extra_s:g} s, or sends too slowly"
            problem = late if self._deadline.passed else f"does not answer: {error or type(error).__name__}"
            raise UnreachableError(f"the aggregator at {self._client.base_url} {problem}") from error
        finally:
            self._deadline.clear()

    def _refuse(self, answer: httpx.Response, asked: str) -> NoReturn:
        if answer.status_code in _PATIENCE:
            said = f"answered {answer.status_code} to {asked}"
            raise UnreachableError(f"the aggregator at {self._client.base_url} {said}")
        try:
            detail = read_message(messages.ErrorReply, self._content(answer)).error
        except MessageError as error:
            raise UnreachableError(
                f"{self._client.base_url} answered {answer.status_code} to {asked}, but not as an aggregator "
                "does; check [server] url"
            ) from error
        said = without_requests(detail.message) or detail.message  # the device asks by itself
        raise RefusedError(answer.status_code, shorten(detail.code), shorten(said))

    def _read(self, kind: type[T], content: bytes) -> T:
        try:
            return read_message(kind, content)
        except MessageError as error:
            raise UnreachableError(
                f"{self._client.base_url} answered what no aggregator would: {error}; does this network ask to log in "
                "first? Else check [server] url"
            ) from error

    def _content(self, answer: httpx.Response) -> bytes:
        return b"".join(self._pieces(answer, self.bounds.json_bytes))

    def _pieces(self, answer: httpx.Response, largest: int) -> Iterator[bytes]:
        """Yield an answer's bytes as they arrive, which is neither more nor slower than allowed."""
        announced = answer.headers.get("Content-Length", "")
        encoding = answer.headers.get("Content-Encoding", "identity")
        what = f"{self._client.base_url} answered {answer.request.url.path}"
        if encoding != "identity":
            raise UnreachableError(f"{what} compressed ({shorten(encoding)}), which was not asked for")
        if announced.isdecimal() and int(announced[:20]) > largest:
            raise UnreachableError(f"{what} with {shorten(announced)} bytes; at most {largest} are taken")
        self._deadline.set(self.bounds.seconds)
        began, received = time.monotonic(), 0
        for piece in answer.iter_raw(_PIECE):
            received += len(piece)
            if received > largest:
                raise UnreachableError(f"{what} with more than {largest} bytes, the most that is taken")
            yield piece
            self._deadline.set(began + self.bounds.seconds_for(received) - time.monotonic())


def _in_pieces(data: bytes, beat: Callable[[], None]) -> Iterator[bytes]:
    for start in range(0, len(data), _PIECE):
        beat()
        yield data[start : start + _PIECE]


def _time(header: str) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(header).timestamp()
    except (ValueError, OverflowError):
        return None


def is_local(host: str) -> bool:
    """Return whether a host is on this machine or in the owner's own network, as far as its name or number says."""
    try:
        return ipaddress.ip_address(host).is_private  # loopback and link-local ones are, too
    except ValueError:
        return "." not in host or host.lower().endswith(_LOCAL_NAMES)
