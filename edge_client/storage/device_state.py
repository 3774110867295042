"""The state folder of a device: what it must not lose, each part in a class of its own, and what they share."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from edge_client.errors import DamagedError, StateError
from edge_client.storage import owner_choices
from edge_client.storage.blob_cache import BlobCache
from edge_client.storage.checked_files import file_digest, finished_files, mend_twice, read_checked, write_checked
from edge_client.storage.identity import IdentityStore
from edge_client.storage.locks import is_locked, take_lock
from edge_client.storage.membership import MembershipStore
from edge_client.storage.outbox import Outbox
from edge_client.storage.saved_model import ModelStore
from fleet_protocol.atomic_files import leftovers, make_folder, remove_durably

# Written twice, because the device could not get them again.
KEPT_TWICE = ("identity.json", "membership.json", "noise.key", "model.safetensors", owner_choices.FILE)
# The names of files that are being written (fleet_protocol.atomic_files).
_HALF_WRITTEN = re.compile(
    r"\.((identity\.json|membership\.json|noise\.key|model\.safetensors|choices\.json)(\.copy)?|status\.json"
    r"|embeddings\.safetensors|expectations\.json|forgotten\.json|page\.key|update-.*|learned-.*|[0-9a-f]{64})"
    r"\.[0-9a-f]{8}"
)


class DeviceState:
    """A state folder. Whatever is read from it is compared with its digest first; :meth:`mend` restores damage.

    Attributes:
        folder: The folder.
        identity: Identity of the device.
        membership: The fleet that it joined.
        model: Saved model.
        outbox: Work that waits to be sent.
        blobs: Cache of what the aggregator sent.
        unknown_folder: Place of unknown sounds that wait for a name.
        detected_folder: Place of detected sounds to be confirmed or corrected, if their owner wants them kept.
        trash_folder: Place of deleted clips, for a while.
        forgotten_path: Place of labels that are to leave the model (``edge_client.learning.forgotten_labels``).
        choices_path: Place of the owner's decisions beside the clips (``edge_client.storage.owner_choices``).
        embeddings_path: Place of embeddings of the owner's clips.
    """

    def __init__(self, folder: Path) -> None:
        """Use a folder, which is made readable by its owner alone where it does not exist."""
        make_folder(folder)
        self.folder = folder
        self.identity = IdentityStore(folder)
        self.membership = MembershipStore(folder)
        self.model = ModelStore(folder)
        self.outbox = Outbox(folder / "outbox")
        self.blobs = BlobCache(folder / "blobs")
        self.unknown_folder = folder / "unknown"
        self.detected_folder = folder / "detected"
        self.trash_folder = folder / "trash"
        self.forgotten_path = folder / "forgotten.json"
        self.choices_path = folder / owner_choices.FILE
        self.embeddings_path = folder / "embeddings.safetensors"
        self._expectations_path = folder / "expectations.json"

    def lock(self, purpose: str, patience_s: float = 0.0) -> int:
        """Make sure that no other process does the same; the lock lasts until the process ends.

        Args:
            purpose: what the process does.
            patience_s: how long to wait for another one, in seconds.

        Raises:
            StateError: another process does.
        """
        descriptor = take_lock(self.folder / f"{purpose}.lock", patience_s)
        if descriptor is None:
            raise StateError(
                f"another process is at work in {self.folder} ({purpose}.lock); stop it, or give this device a "
                "state folder of its own ([device] state)"
            )
        return descriptor

    def locked(self, purpose: str) -> bool:
        """Return whether a process holds the lock."""
        path = self.folder / f"{purpose}.lock"
        return path.exists() and is_locked(path)

    def leave_fleet(self, bundle_path: Path) -> None:
        """Forget who the device was in its fleet, and which labels were which of the fleet's classes.

        The identity goes last: a leave that was interrupted can be done again. Only for the process that holds the
        locks.

        Raises:
            BundleError: the bundle cannot be read.
            StateError: the saved model is damaged.
        """
        self.model.forget_fleet(bundle_path)
        for path in (*finished_files(self.outbox.folder), *finished_files(self.blobs.folder)):
            remove_durably(path)
        self.membership.remove()
        self.identity.remove()

    def mend(self) -> list[str]:
        """Compare every file with its digest and restore what is damaged, or remove it where it can be made again.

        Only for the process that holds the locks, while nothing trains.

        Returns:
            What was damaged, a sentence each.

        Raises:
            OSError: the disk refuses.
            DamagedError: a file that the device needs is damaged, and so is its copy.
        """
        found = [mend_twice(self.folder / name) for name in KEPT_TWICE]
        once = (self.embeddings_path, self._expectations_path, self.forgotten_path)
        checked = [*once, *finished_files(self.outbox.folder)]
        damaged = [path for path in checked if path.exists() and _is_damaged(path)]
        damaged += [path for path in finished_files(self.blobs.folder) if file_digest(path) != path.name]
        for path in damaged:
            remove_durably(path)
            found.append(f"{path.relative_to(self.folder)} was damaged, and was removed; it will be made again")
        return [sentence for sentence in found if sentence]

    def remove_leftovers(self) -> None:
        """Remove the half-written files of processes that were killed."""
        for folder in (self.folder, self.outbox.folder, self.blobs.folder):
            for path in leftovers(folder) if folder.is_dir() else ():
                if _HALF_WRITTEN.fullmatch(path.name):
                    path.unlink()

    def save_expectations(self, expected: list[dict[str, Any]]) -> None:
        """Keep what is to be expected of the labels that were taught; see :meth:`expectations`."""
        write_checked(self._expectations_path, json.dumps(expected).encode())

    def expectations(self) -> list[dict[str, Any]]:
        """Return an object for each label: ``edge_client.learning.teaching.expectation.Expectation``; or nothing.

        They are nothing, too, where the file is damaged: the next teaching makes them again.
        """
        try:
            return list(json.loads(read_checked(self._expectations_path)))
        except (FileNotFoundError, DamagedError):
            return []


def _is_damaged(path: Path) -> bool:
    try:
        read_checked(path)
    except DamagedError:
        return True
    return False
