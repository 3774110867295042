"""The fleet that a device joined by an invitation."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from edge_client.errors import DamagedError, StateError
from edge_client.storage.checked_files import read_twice, remove_twice, write_twice


@dataclass(frozen=True)
class Membership:
    """The fleet that the device joined by an invitation.

    Attributes:
        url: Address of the aggregator.
        authority: Certificate of the authority that vouches for it, PEM; None where public ones do, or nobody.
    """

    url: str
    authority: str | None = None


class MembershipStore:
    """The file ``membership.json`` of a state folder.

    Attributes:
        path: Its place.
    """

    def __init__(self, folder: Path) -> None:
        """Read nothing yet."""
        self.path = folder / "membership.json"

    def load(self) -> Membership | None:
        """Return the fleet that the device joined by an invitation; None where it did not.

        Raises:
            StateError: the file is damaged, and so is its copy.
        """
        try:
            return Membership(**json.loads(read_twice(self.path)))
        except FileNotFoundError:
            return None
        except (DamagedError, ValueError, TypeError) as error:
            raise StateError(f"{self.path} is damaged ({error}); remove it and join the fleet again") from error

    def save(self, membership: Membership) -> None:
        """Note the fleet that the device joined."""
        write_twice(self.path, json.dumps(dataclasses.asdict(membership)).encode())

    def remove(self) -> None:
        """Forget the fleet."""
        remove_twice(self.path)
