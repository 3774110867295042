"""What the aggregator sent, named by its digest: it can be fetched again."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from edge_client.errors import DamagedError, StateError
from edge_client.storage.checked_files import file_digest, finished_files
from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.errors import ProtocolError
from fleet_protocol.ground.atomic_files import remove_durably
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.numbers.fleet_prototypes import FleetPrototypes
from fleet_protocol.numbers.tensors import digest, is_digest

log = logging.getLogger(__name__)

T = TypeVar("T")


class BlobCache:
    """A folder of blobs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, sha256: str) -> Path:
        """Return where a blob is kept. Raises StateError if this is no digest, and must not become a path."""
        if not is_digest(sha256):
            raise StateError(f"a blob is named by 64 hex digits, not {sha256[:100]!r}")
        return self.folder / sha256

    def has(self, sha256: str) -> bool:
        """Return whether a blob is there, undamaged; a damaged one is removed. Raises StateError as :meth:`path`."""
        path = self.path(sha256)
        if not path.exists():
            return False
        if file_digest(path) == sha256:
            return True
        log.error("%s is damaged; it is fetched again", path)
        remove_durably(path)
        return False

    def read(self, sha256: str) -> bytes:
        """Return a blob of the cache. Raises StateError if it is not there or damaged, or this is no digest."""
        path = self.path(sha256)
        try:
            data = path.read_bytes()
        except FileNotFoundError as error:
            raise StateError(f"{path} is not in the cache; the daemon fetches it again") from error
        if digest(data) != sha256:
            raise DamagedError(f"{path} is damaged: its content does not match its name; the daemon fetches it again")
        return data

    def public_set(self, settings: FeatureSettings) -> PublicSet | None:
        """Return the newest public set in the cache whose features were computed in this way; None where none is."""
        found = self._cached(PublicSet.unpack)
        return next((public_set for public_set in found if public_set.settings.digest == settings.digest), None)

    def prototypes(self, settings: FeatureSettings) -> FleetPrototypes | None:
        """Return the newest prototypes in the cache, of features computed in this way; None where there are none."""
        found = self._cached(FleetPrototypes.unpack)
        return next((prototypes for prototypes in found if prototypes.features == settings.digest), None)

    def _cached(self, unpack_blob: Callable[[bytes], T]) -> Iterator[T]:
        """Read the blobs of one kind, the newest first; those of other kinds lie there too.

        The daemon may remove one meanwhile.
        """
        times: dict[Path, float] = {}
        for path in finished_files(self.folder):
            with contextlib.suppress(FileNotFoundError):
                times[path] = path.stat().st_mtime
        for path in sorted(filter(lambda path: is_digest(path.name), times), key=times.__getitem__, reverse=True):
            with contextlib.suppress(ProtocolError, StateError):
                yield unpack_blob(self.read(path.name))

    def keep(self, wanted: set[str], spare_bytes: int = 0) -> None:
        """Remove cached blobs that are not wanted, but the newest of them as long as they take no more than this."""
        unwanted = [path for path in finished_files(self.folder) if path.name not in wanted]
        for path in sorted(unwanted, key=lambda path: path.stat().st_mtime, reverse=True):
            spare_bytes -= path.stat().st_size
            if spare_bytes < 0:
                path.unlink()
