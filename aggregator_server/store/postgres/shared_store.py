"""The state of a fleet whose tables are in PostgreSQL, where other servers may have it too."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from aggregator_server.store.postgres.database import Postgres
from aggregator_server.store.postgres.servers import Servers, require_lease
from aggregator_server.store.postgres.tables import note_removals
from aggregator_server.store.store import Kind, Store


class SharedStore(Store):
    """Tables in PostgreSQL. Before :meth:`join` it speaks with no other server."""

    database: Postgres
    _servers: Servers | None = None

    def join(self, heard: Callable[[Kind], None]) -> None:  # noqa: D102
        def hear(kind: Kind) -> None:
            if kind == "work":
                self.state = object()
            heard(kind)

        self._servers = Servers(self.database.listening, self.database.server, self.database.number, hear)
        self._servers.start()

    def hurry(self, seconds: float) -> None:  # noqa: D102
        self.database.hurry(seconds)

    def leave(self) -> None:  # noqa: D102
        if self._servers is not None:
            self._servers.end()

    def tell(self, kind: Kind) -> None:  # noqa: D102
        if self._servers is not None:
            self._servers.tell(kind)

    def leading(self) -> AbstractContextManager[int | None]:  # noqa: D102
        return nullcontext(0) if self._servers is None else self._servers.leading()

    def _remove(self, unnamed: Sequence[str]) -> int:
        """Remove blobs. No server can name one meanwhile (tables.py)."""
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
            self.database.end_removal(noted - uncertain)
        return removed
