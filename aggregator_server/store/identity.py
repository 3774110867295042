"""Whether tables and blobs belong together: a number that the database has, and a note of it beside the blobs.

A database that was emptied, lost or replaced would otherwise start a new fleet in silence, beside the blobs of the old;
and an empty store, of a mistyped prefix or a share that is not mounted, would be taken for that of a fleet.
"""

import secrets

from sqlalchemy.orm import Session

from aggregator_server.errors import StartError
from aggregator_server.store.blobs import BlobStore
from aggregator_server.store.needed_blobs import one_lasting

_LARGEST = 2**31  # SQLite keeps the number as a signed 32-bit integer; 0 stands for none


class Identity:
    """The number that is noted beside the blobs. ``noted``: the number; None where none is noted."""

    def __init__(self, blobs: BlobStore) -> None:
        """Read the number. Raises StartError: it is none. StateAwayError: the store does not answer."""
        self._blobs = blobs
        text = blobs.identity()
        try:
            self.noted = None if text is None else int(text)
        except ValueError:
            raise StartError(
                f"fleet.id in {blobs.shown()} is damaged; remove it if the database is that of these arrays"
            ) from None

    def require(self, found: int, database: str) -> int:
        """Check that a database is the blobs' own; return its number, a new one where it has none (0).

        Raises StartError: it is not; names the way out.
        """
        if not found and (self.noted is not None or not self._blobs.is_empty()):
            raise StartError(
                f"the arrays in {self._blobs.shown()} belong to a fleet, but its database {database} is missing or "
                "empty; restore it from a backup. To start a new fleet, choose another folder, or another bucket or "
                "prefix"
            )
        if self.noted is not None and found != self.noted:
            raise StartError(
                f"{database} is the database of another fleet (number {found}, that of the arrays in "
                f"{self._blobs.shown()} is {self.noted}); name those that belong together, or put the database back "
                "from a backup. If it is meant to be this one, remove fleet.id there"
            )
        return found or 1 + secrets.randbelow(_LARGEST - 1)

    def require_blobs(self, session: Session, database: str) -> None:
        """Refuse a store, empty or unclaimed, that lacks what the database needs. Raises StartError: it does."""
        sha256 = one_lasting(session)
        if sha256 is None or self._blobs.exists(sha256) or not (self.noted is None or self._blobs.is_empty()):
            return
        raise StartError(
            f"the fleet in {database} has arrays, and {self._blobs.shown()} holds none of them, such as {sha256}; look "
            "whether --store and its prefix are right and the share is mounted, or restore a backup"
        )

    def note(self, number: int) -> None:
        """Note the number of the database, once that is durable."""
        if self.noted is None:
            self._blobs.note_identity(f"{number}\n")
            text = self._blobs.identity()
            if text is None or text.strip() != str(number):  # another server of another fleet was faster
                raise StartError(f"{self._blobs.shown()} belongs to another fleet; choose another one")
            self.noted = number
