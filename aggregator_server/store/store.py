"""The state of a fleet as a server has it open, by one process alone; postgres/shared_store.py has it beside others."""

import io
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Literal

from sqlalchemy import Executable, bindparam, select, update
from sqlalchemy.orm import Session

from aggregator_server.limits import DEVICES_NEEDED
from aggregator_server.store.blobs import BlobStore
from aggregator_server.store.database import Database
from aggregator_server.store.location import Location
from aggregator_server.store.tables import DEVICES, BlobRow

Kind = Literal["work", "round"]
"""What other servers are told: that devices may have work, or that the open round may be due."""
_NOTE_SEEN = (  # another server may have heard of it later
    update(DEVICES)
    .where(DEVICES.c.device_id == bindparam("of_device"), DEVICES.c.seen_at < bindparam("now"))
    .values(seen_at=bindparam("now"))
)
_log = logging.getLogger(__name__)


class Tables:
    """The tables of a fleet. Several processes may have them open."""

    def __init__(self, database: Database) -> None:
        # Another object after every transaction that wrote, also one of another server that told of it. Other processes
        # write no rounds, classes or models.
        self.state = object()
        self.database = database

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A session that sees one consistent state; nothing that is done in it is kept.

        Raises StateAwayError: the database does not answer. So do the other methods.
        """
        with self.database.reading() as session:
            yield session

    @contextmanager
    def writing(self, *, durable: bool = True, of_one: bool = False) -> Iterator[Session]:
        """A session that holds the write lock and commits durably at the end, or changes nothing on an error.

        Without ``durable``, a power cut may undo the commit until :meth:`flush` was called. It then undoes every later
        one too: the log is read up to its first damaged page. ``of_one``: what is written concerns one device's part
        in a round, and nothing that all devices are told; so ``state`` stays.
        """
        with self.database.writing("durable" if durable else "soon") as session:
            yield session
        if not of_one:
            self.state = object()

    def flush(self) -> None:
        """Make durable whatever was committed before. Raises OSError: the disk refuses."""
        self.database.flush()

    def first_row(self, statement: Executable, parameters: Mapping[str, object]) -> Any:  # noqa: ANN401  (a row)
        """Return the first row that a statement finds by a key, or None.

        Only the thread of the event loop may call this. To read one row of SQLite takes a tenth of what it takes to
        have another thread do it, and no writer keeps a reader waiting.
        """
        return self.database.first_row(statement, parameters)

    def close(self) -> None:
        """Close every connection."""
        self.database.close()


class Store(Tables):
    """The state of a fleet: its tables and its blobs, for a server. One process may have a data folder open.

    A blob is stored before any row names it; uploads are removed when their round is over.
    """

    def __init__(
        self, location: Location, lock: io.FileIO, instance: str, blobs: BlobStore, database: Database
    ) -> None:
        """Take what was opened; ``lock`` is the data folder's, ``instance`` what this process is known by."""
        super().__init__(database)
        self.location, self.folder, self.instance, self.blobs = location, location.data, instance, blobs
        self.devices_needed = DEVICES_NEEDED  # to have sent a class before others listen for it
        self._lock = lock
        self._seen: dict[str, float] = {}

    def note_seen(self, device_id: str, now: float) -> None:
        """Keep in memory when a device was last heard of. Any thread may call this."""
        self._seen[device_id] = now

    def write_seen(self) -> None:
        """Write when devices were last heard of, all in one transaction.

        Not every request for work is worth a write to the disk: a fleet that wakes would wait for one after the other.
        """
        seen, self._seen = self._seen, {}
        if seen:
            with self.writing(durable=False) as session:
                values = [{"of_device": device_id, "now": now} for device_id, now in sorted(seen.items())]
                session.connection().execute(_NOTE_SEEN, values)

    def join(self, heard: Callable[[Kind], None]) -> None:
        """Begin to serve beside other servers, where the fleet can have several.

        ``heard``: is called by a thread when another one told something, or may have.
        """

    def hurry(self, seconds: float) -> None:
        """Wait for a database elsewhere no longer than some seconds, for the server ends."""

    def leave(self) -> None:
        """End what :meth:`join` began, and let another server move rounds."""

    def tell(self, kind: Kind) -> None:
        """Tell the other servers that something changed. Any thread may call this."""

    def leading(self) -> AbstractContextManager[int | None]:
        """A step of the rounds: a number that grows with other servers' steps; 0: no other is there; None: one leads.

        A write within it raises LeaseLostError once another server may make steps.
        """
        return nullcontext(0)

    def remove_unnamed(self, digests: Sequence[str]) -> int:
        """Remove those of some old blobs that no row names; return how many.

        What the store does not remove now is left for later. Raises LeaseLostError: another server makes the steps by
        now. StateAwayError: the database does not answer.
        """
        with self.reading() as session:
            unnamed = set(digests) - set(session.scalars(select(BlobRow.sha256).where(BlobRow.sha256.in_(digests))))
        return self._remove(sorted(unnamed)) if unnamed else 0

    def _remove(self, unnamed: Sequence[str]) -> int:
        """Remove blobs that no row named just now; return how many."""
        return sum(self._is_removed(sha256) for sha256 in unnamed)

    def _is_removed(self, sha256: str) -> bool:
        try:
            self.blobs.remove(sha256)
        except OSError as error:
            _log.warning("%s; an array that nothing names stays for now", error)
            return False
        return True

    def close(self) -> None:
        """Close every connection and unlock the folder."""
        self.leave()
        super().close()
        self._lock.close()
