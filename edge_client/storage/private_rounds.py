"""What a device notes of its private round, and what the rounds so far can have told of it.

A kill changes no answer, and nobody is answered twice. After the last answer its secret is removed:
who gets hold of the device later cannot unmask what it sent.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edge_client.errors import DamagedError
from edge_client.storage.checked_files import of_another_release, read_checked, read_twice, write_checked, write_twice
from edge_client.storage.database import Database
from fleet_protocol.errors import MessageError, SecureSumError
from fleet_protocol.ground.atomic_files import remove_durably
from fleet_protocol.messages.private_rounds import Member, PrivatePlan
from fleet_protocol.messages.rest import parse
from fleet_protocol.secure_sums.privacy_budget import DELTA, epsilon_of, spent_by

log = logging.getLogger(__name__)

FILE, PRIVACY = "private_round.json", "privacy.json"
_KNOWN, _MOST_KNOWN = "signing_keys", 4_096
_MEANS_LITTLE = 10.05  # epsilon: beyond it e^epsilon is no number that helps anybody


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


@dataclass(frozen=True)
class Spent:
    """What was told; ``noisy`` and ``open`` count rounds with and without noise."""

    mu_squared: float = 0.0  # of the rounds with noise together (fleet_protocol.secure_sums.privacy_budget)
    noisy: int = 0
    open: int = 0
    last: str = ""  # Digest of the newest upload that was counted

    def told(self, budget: float | None) -> dict[str, Any] | None:
        """Return it for people, JSON-ready; None where nothing was told and no ``budget``, an epsilon, is set.

        ``epsilon`` is None where nothing bounds what was told.
        """
        if budget is None and not self.noisy + self.open:
            return None
        found = epsilon_of(self.mu_squared)
        limit = "" if budget is None else f" of at most {budget:g}"
        said = f"{found:.2g}" if found < 10 else f"{found:.0f}"
        words = f"so far the fleet's rounds can have told epsilon {said}{limit}, at delta {DELTA:g}"
        if self.open:
            words += f", besides {self.open} uploads without noise, of which nothing bounds what they tell"
        elif found <= _MEANS_LITTLE:
            times = f"{math.exp(found):.2g}" if found < 4 else f"{math.exp(found):,.0f}"
            words += f": whatever anybody guesses of this home, they make it at most {times} times as likely"
        else:
            words += ", which promises little"
        epsilon = found if math.isfinite(found) and not self.open else None
        return dataclasses.asdict(self) | {"epsilon": epsilon, "delta": DELTA, "budget": budget, "words": words}


class PrivacyLedger:
    """The file ``privacy.json`` of a state folder: counted before an upload leaves, and never forgotten.

    A fleet that is left has learned all the same: the file outlives the membership.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / PRIVACY

    def load(self) -> Spent:
        """Return what was told so far. Raises DamagedError: the file and its copy are damaged; StateError."""
        if not self.path.exists():
            return Spent()
        try:
            return Spent(**json.loads(read_twice(self.path)))
        except (ValueError, TypeError) as error:
            raise of_another_release(self.path, error, "remove it to count from now on") from error

    def count(self, upload: str, private: PrivatePlan | None) -> None:
        """Note an upload that is about to leave, by its digest; the same again counts once. Raises OSError."""
        spent = self.load()
        if spent.last == upload:
            return
        if private is not None and private.noise:
            more = spent.mu_squared + spent_by(private.noise)
            spent = dataclasses.replace(spent, mu_squared=more, noisy=spent.noisy + 1)
        else:
            spent = dataclasses.replace(spent, open=spent.open + 1)
        write_twice(self.path, json.dumps(dataclasses.asdict(dataclasses.replace(spent, last=upload))).encode())

    def require_within(self, budget: float | None, private: PrivatePlan | None) -> None:
        """Refuse a round that would exceed a budget, an epsilon. Raises SecureSumError: it would, or has no noise."""
        if budget is None:
            return
        if private is None or not private.noise:
            raise SecureSumError("the round has no noise, and this device has a budget ([privacy] epsilon)")
        after = epsilon_of(self.load().mu_squared + spent_by(private.noise))
        if after > budget:
            raise SecureSumError(
                f"the round would bring what was told of this device to epsilon {after:.3g}, and its owner allows "
                f"{budget:g} ([privacy] epsilon)"
            )
