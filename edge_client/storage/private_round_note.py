"""What a device notes of its private round, and which keys other devices had in earlier ones.

A kill changes no answer, and nobody is answered twice. After the last answer its secret is removed:
who gets hold of the device later cannot unmask what it sent.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from dataclasses import dataclass, field
from pathlib import Path

from edge_client.errors import DamagedError
from edge_client.storage.checked_files import read_checked, write_checked
from edge_client.storage.database import Database
from fleet_protocol.errors import MessageError, SecureSumError
from fleet_protocol.ground.atomic_files import remove_durably
from fleet_protocol.messages.private_rounds import Member
from fleet_protocol.messages.rest import parse

log = logging.getLogger(__name__)

FILE = "private_round.json"
_KNOWN, _MOST_KNOWN = "signing_keys", 4_096


@dataclass(frozen=True, kw_only=True)
class PrivateRoundNote:
    """The newest private round that the device answered in; what a stage was told stands here before its answer."""

    round_id: int
    context: str  # Digest of the round as it was announced, hex digits
    secret: str  # Its random bytes, hex digits; "" once the round is over
    members: tuple[Member, ...] = ()
    taking_part: tuple[str, ...] = ()
    shares: dict[str, str] = field(default_factory=dict)  # of neighbours, encrypted
    upload: str = ""  # Digest of the masked upload, once it is made
    uploaded: tuple[str, ...] = ()


class PrivateRoundStore:
    """The file ``private_round.json`` of a state folder, and the keys of other devices."""

    def __init__(self, folder: Path, database: Database) -> None:
        self.path = folder / FILE
        self._database = database

    def load(self) -> PrivateRoundNote | None:
        """Return the note; None: there is none, or it is damaged. Then its secret is lost, and cannot answer twice."""
        try:
            return parse(PrivateRoundNote, json.loads(read_checked(self.path)))
        except FileNotFoundError:
            return None
        except (DamagedError, MessageError, ValueError) as error:
            log.error("%s; this device sits out the private round that it was in", error)
            remove_durably(self.path)
            return None

    def save(self, note: PrivateRoundNote) -> None:
        """Replace the note durably. Raises OSError."""
        write_checked(self.path, json.dumps(dataclasses.asdict(note)).encode())

    def end(self) -> None:
        """Remove the secret of the round, if there is one; that it was answered stays noted."""
        note = self.load()
        if note is not None and note.secret:
            self.save(dataclasses.replace(note, secret="", members=(), shares={}))

    def require_known(self, members: tuple[Member, ...]) -> None:
        """Refuse a device with another key than it had before; note those of devices that are new (SSH does so too).

        The newest 4,096 are noted. Raises SecureSumError, which names the device.
        """
        known: dict[str, str] = self._database.note(_KNOWN) or {}
        for member in members:
            if known.get(member.device_id, member.signing_key) != member.signing_key:
                raise SecureSumError(
                    f"device {member.device_id} has another signing key than in an earlier round: it was set up anew, "
                    "or somebody pretends to be it"
                )
        new = {member.device_id: member.signing_key for member in members if member.device_id not in known}
        if new:
            newest = list((known | new).items())[-_MOST_KNOWN:]
            self._database.set_note(_KNOWN, dict(newest))

    def forget(self) -> None:
        """Forget the round and all devices, with the fleet."""
        remove_durably(self.path)
        self._database.set_note(_KNOWN, None)
