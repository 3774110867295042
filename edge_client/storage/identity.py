"""Who a device is to its aggregator, and which fleet it joined: kept twice, never shown."""

from __future__ import annotations

import dataclasses
import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from edge_client.errors import DamagedError, StateError
from edge_client.storage.checked_files import of_another_release, read_twice, remove_twice, write_twice
from fleet_protocol.client.identity import Identity
from fleet_protocol.secure_sums.primitives import KEY_BYTES, is_available, signing_public_key

_Kind = TypeVar("_Kind")

SIGNING_KEY = "signing.key"


class IdentityStore:
    """The file ``identity.json`` of a state folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "identity.json"
        self.signing_path = folder / SIGNING_KEY

    def load(self) -> Identity:
        """Return the device's identity, drawn on first use. Raises StateError if it is damaged or cannot be written."""
        if not self.path.exists():
            try:
                self.save(Identity(secrets.token_hex(16), secrets.token_urlsafe(32)))
            except OSError as error:
                raise StateError(
                    f"cannot write {self.path}, which says who this device is: {error.strerror}; free space there"
                ) from error
        return _read(self.path, Identity, "enrol as a new device")

    def require_own_release(self) -> None:
        """Refuse what another release left. Raises StateError, DamagedError."""
        if self.path.exists():
            self.load()

    def save(self, identity: Identity) -> None:
        """Replace the device's identity."""
        write_twice(self.path, json.dumps(dataclasses.asdict(identity)).encode())

    def signing_key(self) -> bytes:
        """Return the key by which other devices know this one, 32 bytes, drawn on first use. Raises as :meth:`load`."""
        if not self.signing_path.exists():
            write_twice(self.signing_path, secrets.token_bytes(KEY_BYTES))
        key = read_twice(self.signing_path)
        if len(key) != KEY_BYTES:
            raise of_another_release(self.signing_path, f"{len(key)} bytes", "remove it to draw another key")
        return key

    def public_signing_key(self) -> str:
        """Return what it tells others of that key, 64 hex digits; "" where it cannot take part in private rounds."""
        return signing_public_key(self.signing_key()) if is_available() else ""

    def remove(self) -> None:
        """Forget who the device was; the next use draws another identity."""
        remove_twice(self.signing_path)
        remove_twice(self.path)


@dataclass(frozen=True)
class Membership:
    """The fleet that was joined by an invitation; ``authority``: the certificate that it pinned, PEM, if any."""

    url: str
    authority: str | None = None


class MembershipStore:
    """The file ``membership.json`` of a state folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "membership.json"

    def load(self) -> Membership | None:
        """Return the fleet that was joined by an invitation, if any. Raises StateError if the file is damaged."""
        return _read(self.path, Membership, "join the fleet again") if self.path.exists() else None

    def save(self, membership: Membership) -> None:
        """Note the fleet that the device joined."""
        write_twice(self.path, json.dumps(dataclasses.asdict(membership)).encode())

    def remove(self) -> None:
        """Forget the fleet."""
        remove_twice(self.path)


def _read(path: Path, kind: type[_Kind], what_for: str) -> _Kind:
    try:
        content = read_twice(path)
    except DamagedError as error:
        raise DamagedError(f"{path} is damaged ({error}); remove it to {what_for}") from error
    try:
        return kind(**json.loads(content))
    except (ValueError, TypeError) as error:  # it has its digest, so it is as it was written
        raise of_another_release(path, error, f"remove it to {what_for}") from error
