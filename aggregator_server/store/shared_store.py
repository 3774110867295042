"""The state of a fleet whose tables are in PostgreSQL, where other servers may have it too."""

import io
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from aggregator_server.store.blobs import BlobStore
from aggregator_server.store.location import Location
from aggregator_server.store.postgres import Postgres
from aggregator_server.store.postgres_tables import note_removals
from aggregator_server.store.servers import Kind, Servers, require_lease
from aggregator_server.store.store import Store


class SharedStore(Store):
    """Tables in PostgreSQL. Before :meth:`join` it speaks with no other server."""

    def __init__(
        self, location: Location, lock: io.FileIO, instance: str, blobs: BlobStore, database: Postgres
    ) -> None:
        """Take what was opened; see :class:`Store`."""
        super().__init__(location, lock, instance, blobs, database)
        self._postgres = database
        self._servers: Servers | None = None

    def join(self, heard: Callable[[Kind], None]) -> None:
        """Begin to serve beside other servers."""

        def hear(kind: Kind) -> None:
            if kind == "work":
                self.state = object()
            heard(kind)

        self._servers = Servers(self._postgres.listening, self._postgres.server, self._postgres.number, hear)
        self._servers.start()

    def hurry(self, seconds: float) -> None:
        """Wait for the database no longer than some seconds."""
        self._postgres.hurry(seconds)

    def leave(self) -> None:
        """Let another server move rounds."""
        if self._servers is not None:
            self._servers.end()

    def tell(self, kind: Kind) -> None:
        """Tell the other servers."""
        if self._servers is not None:
            self._servers.tell(kind)

    def leading(self) -> AbstractContextManager[int | None]:
        """A step by the lease."""
        return nullcontext(0) if self._servers is None else self._servers.leading()

    def _remove(self, unnamed: Sequence[str]) -> int:
        """Remove blobs. No server can name one meanwhile (postgres_tables.py)."""
        with self.writing() as session:
            noted = note_removals(session, unnamed)  # from now on no row can name them
        removed, uncertain = 0, set()
        try:
            for sha256 in sorted(noted):
                with self.reading() as session:  # another server may have taken the step meanwhile
                    require_lease(session)
                if self._is_removed(sha256):
                    removed += 1
                else:
                    uncertain.add(sha256)
        finally:
            self._postgres.end_removal(noted - uncertain)
        return removed
