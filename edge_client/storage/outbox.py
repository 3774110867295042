"""What waits to be sent to the aggregator; it outlives a power cut, and is made again where it is damaged."""

from __future__ import annotations

import logging
from pathlib import Path

from edge_client.errors import DamagedError
from edge_client.storage.checked_files import finished_files, read_checked, write_checked
from fleet_protocol.atomic_files import remove_durably

log = logging.getLogger(__name__)


class Outbox:
    """A folder of files, each at :meth:`update_path` or :meth:`learned_path`.

    Attributes:
        folder: The folder.
    """

    def __init__(self, folder: Path) -> None:
        """Read nothing yet."""
        self.folder = folder

    def update_path(self, round_id: int) -> Path:
        """Return where the upload for a round waits."""
        return self.folder / f"update-{round_id}.safetensors"

    def learned_path(self, round_id: int) -> Path:
        """Return where the report waits that a round's result was learned."""
        return self.folder / f"learned-{round_id}.json"

    def put(self, path: Path, data: bytes) -> None:
        """Write what is to be sent."""
        write_checked(path, data)

    def read(self, path: Path) -> bytes | None:
        """Return what waits to be sent; None where nothing does, or where it is damaged: then it is removed."""
        try:
            return read_checked(path)
        except FileNotFoundError:
            return None
        except DamagedError as error:
            log.error("%s; it is made again", error)
            remove_durably(path)
            return None

    def is_empty(self) -> bool:
        """Return whether nothing waits to be sent."""
        return not finished_files(self.folder)

    def remove(self, path: Path) -> None:
        """Remove what was sent, or what nobody wants any more."""
        remove_durably(path)
