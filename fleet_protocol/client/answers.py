"""What a server's answers may be: how large, how slow, and what may stand in them.

The aggregator is trusted with the fleet's models, and yet a device must outlive one that is broken, or taken over.
Each bound is checked before anything of that size is in memory.
"""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from fleet_protocol.bundle.labels import is_name
from fleet_protocol.errors import MessageError
from fleet_protocol.limits import CLASSES_OF_WORK, MESSAGE_BYTES, MODEL_BYTES, NAME_LENGTH, PUBLIC_SET_BYTES
from fleet_protocol.messages.rest import Work, parse
from fleet_protocol.numbers.tensors import is_digest

T = TypeVar("T")

_LARGEST_NUMBER = 2**63
_SHOWN = 300


@dataclass(frozen=True)
class Bounds:
    """Bounds of an answer."""

    json_bytes: int = MESSAGE_BYTES
    public_set_bytes: int = PUBLIC_SET_BYTES
    model_bytes: int = MODEL_BYTES
    seconds: float = 60.0  # Time for an answer, beside the time that a long poll asks for, s
    # Slowest transfer that is waited for, beyond those seconds; a mobile network at its worst is faster
    bytes_per_s: float = 2_000.0

    def blobs(self, work: Work) -> dict[str, int]:
        """Return the largest size of every blob that work names."""
        large = dict.fromkeys((work.public_set, work.consensus), self.public_set_bytes)
        others = (work.model, work.weights, work.fleet_weights, work.prototypes)
        sizes = dict.fromkeys(others, self.model_bytes) | large
        return {sha256: size for sha256, size in sizes.items() if sha256}

    def seconds_for(self, size: int) -> float:
        """Return how long the transfer of so many bytes may take."""
        return self.seconds + size / self.bytes_per_s


def read_message(kind: type[T], data: bytes) -> T:
    """Read a JSON answer. Raises MessageError if it is not UTF-8, no JSON, nested too deeply, or not such a message."""
    try:
        document = json.loads(data, parse_constant=_refuse_constant)
        message = parse(kind, document)
    except (ValueError, RecursionError) as error:
        raise MessageError(f"not JSON: {shorten(error)}") from error
    except MessageError as error:
        raise MessageError(shorten(error)) from error
    for field, value, fits in _checks(message) if isinstance(message, Work) else ():
        if not fits:
            raise MessageError(f"not a usable Work: {field} must not be {shorten(repr(value))}")
    return message


def shorten(text: object) -> str:
    """Return a server's words fit for a log and a terminal: printable, on one line, not long."""
    try:
        words = str(text)
    except RecursionError:
        words = "nested too deeply"
    cut = words if len(words) <= _SHOWN else f"{words[:_SHOWN]}..."
    return "".join(character if character.isprintable() else " " for character in cut)


def _checks(work: Work) -> Iterator[tuple[str, object, bool]]:
    """Check what becomes a path, a number of an array, a seed, or a name on a terminal."""
    for field in ("public_set", "consensus", "model", "weights", "fleet_weights", "prototypes"):
        value = getattr(work, field)
        yield field, value, value is None or is_digest(value)
    yield "round_id", work.round_id, _is_number(work.round_id) and work.round_id > 0
    yield "plan.seed", work.plan.seed, _is_number(work.plan.seed)
    yield "classes", f"{len(work.classes)} classes", len(work.classes) <= CLASSES_OF_WORK
    for info in work.classes:
        yield "class_id", info.class_id, _is_name(info.class_id)
        yield "name", info.name, _is_name(info.name)
    for assignment in work.assignments:
        yield "slot", assignment.slot, _is_number(assignment.slot)
        yield "class_id", assignment.class_id, _is_name(assignment.class_id)


def _is_number(value: int) -> bool:
    return not isinstance(value, bool) and 0 <= value < _LARGEST_NUMBER


def _is_name(value: str) -> bool:
    return len(value) <= NAME_LENGTH and is_name(value)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


class Deadline:
    """Cuts the connection of an :class:`httpx.Client` once the time of its exchange is up; ``passed``: whether it did.

    A thread of its own watches the clock. Give :meth:`trace` to every request as its extension ``trace``. The client
    must use one connection at a time.
    """

    def __init__(self) -> None:
        self.passed = False
        self._socket: socket.socket | None = None
        self._until: float | None = None
        self._closed = False
        self._changed = threading.Condition()
        threading.Thread(target=self._watch, name="deadline", daemon=True).start()

    def trace(self, event: str, details: Mapping[str, Any]) -> None:
        """Note the socket of a new connection."""
        if event == "connection.connect_tcp.complete":
            connected = details["return_value"].get_extra_info("socket")
            with self._changed:
                self._forget()
                # Encryption takes the socket's descriptor away from it; a second one stays.
                self._socket = connected.dup()

    def set(self, seconds: float) -> None:
        """Let the exchange last so long from now on."""
        with self._changed:
            self.passed = False
            self._until = time.monotonic() + seconds
            self._changed.notify()

    def clear(self) -> None:
        """Note that the exchange is over."""
        with self._changed:
            self._until = None

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._closed = True
            self._forget()
            self._changed.notify()

    def _watch(self) -> None:
        with self._changed:
            while not self._closed:
                left = None if self._until is None else self._until - time.monotonic()
                if left is None or left > 0:
                    self._changed.wait(left)
                    continue
                self.passed, self._until = True, None
                if self._socket is not None:
                    with contextlib.suppress(OSError):  # the other side has ended it already
                        self._socket.shutdown(socket.SHUT_RDWR)

    def _forget(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
