"""The state folder of a device: what it must not lose, each part in a class of its own, and what they share."""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from edge_client.errors import DamagedError, StateError
from edge_client.storage.blob_cache import BlobCache
from edge_client.storage.checked_files import file_digest, finished_files, mend_twice, read_checked, write_checked
from edge_client.storage.database import FILE, Database
from edge_client.storage.fleet_classes import ClassNames, ClassOffers
from edge_client.storage.identity import SIGNING_KEY, IdentityStore, MembershipStore
from edge_client.storage.locks import is_locked, take_lock
from edge_client.storage.owner_acts import OwnerActs
from edge_client.storage.owner_choices import OwnerChoices
from edge_client.storage.privacy_ledger import PRIVACY, PrivacyLedger
from edge_client.storage.private_round_note import PrivateRoundStore
from edge_client.storage.saved_model import ModelStore
from fleet_protocol.ground.atomic_files import leftovers, make_folder, remove_durably

log = logging.getLogger(__name__)
_ADVICE = "advice"
# Written twice, because the device could not get them again.
KEPT_TWICE = ("identity.json", "membership.json", "model.safetensors", SIGNING_KEY, PRIVACY)
# Who looks whether a lock is held, holds it for a moment: a daemon that starts just then waits for that, s.
_LOOKED_AT_S = 1.0
# The names of files that are being written (fleet_protocol.ground.atomic_files).
_HALF_WRITTEN = re.compile(
    r"\.((identity\.json|membership\.json|model\.safetensors|signing\.key|privacy\.json)(\.copy)?|status\.json|page\.key"
    r"|private_round\.json"
    r"|embeddings\.safetensors|room\.safetensors|update-.*|learned-.*|[0-9a-f]{64})"
    r"\.[0-9a-f]{8}"
)


class Outbox:
    """A folder of files, each at :meth:`update_path` or :meth:`learned_path`."""

    def __init__(self, folder: Path) -> None:
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

    def keep(self, round_id: int | None) -> bool:
        """Remove what belongs to other rounds than the one that there is work for; say whether something did."""
        wanted = () if round_id is None else (self.update_path(round_id), self.learned_path(round_id))
        over = [path for path in finished_files(self.folder) if path not in wanted]
        for path in over:
            log.warning("%s is of a round that is over; it is removed", path)
            remove_durably(path)
        return bool(over)

    def is_empty(self) -> bool:
        """Return whether nothing waits to be sent."""
        return not finished_files(self.folder)


class DeviceState:
    """A state folder. Whatever is read from it is compared with its digest first; :meth:`mend` restores damage."""

    def __init__(self, folder: Path) -> None:
        """Use a folder, which is made readable by its owner alone where it does not exist."""
        make_folder(folder)
        self.folder = folder
        self.identity = IdentityStore(folder)
        self.membership = MembershipStore(folder)
        self.model = ModelStore(folder)
        self.privacy = PrivacyLedger(folder)
        self.outbox = Outbox(folder / "outbox")
        self.blobs = BlobCache(folder / "blobs")
        self.unknown_folder = folder / "unknown"
        self.detected_folder = folder / "detected"
        self.embeddings_path = folder / "embeddings.safetensors"
        self.questions_folder = folder / "questions"
        self.database = Database(folder / FILE)
        self.choices = OwnerChoices(self.database)
        self.class_names = ClassNames(self.database)
        self.acts = OwnerActs(self.database)
        self.offers = ClassOffers(self.database)
        self.private_rounds = PrivateRoundStore(folder, self.database)

    def lock(self, purpose: str, patience_s: float = _LOOKED_AT_S) -> int:
        """Hold a lock until the process ends. Raises StateError if another process holds it after so many seconds."""
        descriptor = take_lock(self.folder / f"{purpose}.lock", patience_s)
        if descriptor is None:
            raise StateError(
                f"another process is at work in {self.folder} ({purpose}.lock); stop it, or give this device a "
                "state folder of its own ([device] state)"
            )
        return descriptor

    def locked(self, purpose: str) -> bool:
        """Return whether a process holds the lock."""
        return is_locked(self.folder / f"{purpose}.lock")

    def require_own_release(self) -> None:
        """Refuse what another release left. Raises StateError; what is damaged is for :meth:`mend`."""
        with suppress(DamagedError):
            self.membership.load()
        for part in (self.identity, self.model, self.database):
            with suppress(DamagedError):
                part.require_own_release()

    def leave_fleet(self, bundle_path: Path) -> None:
        """Forget who the device was in its fleet, and which labels were which of the fleet's classes.

        The identity goes last: a leave that was interrupted can be done again. Only for who holds the locks.
        """
        self.model.forget_fleet(bundle_path)
        self.class_names.forget()
        self.offers.forget()
        self.private_rounds.forget()
        for path in (*finished_files(self.outbox.folder), *finished_files(self.blobs.folder)):
            remove_durably(path)
        self.membership.remove()
        self.identity.remove()

    def mend(self) -> list[str]:
        """Compare every file with its digest and restore or remove what is damaged; return that, a sentence each.

        Only for the process that holds the locks, while nothing trains. What a full disk keeps from being restored is
        logged. Raises DamagedError if a file that the device needs is damaged, and so is its copy.
        """
        found = [_mended(self.folder / name) for name in KEPT_TWICE] + self.database.mend()
        checked = [self.embeddings_path, self.private_rounds.path, *finished_files(self.outbox.folder)]
        damaged = [path for path in checked if path.exists() and _is_damaged(path)]
        damaged += [path for path in finished_files(self.blobs.folder) if file_digest(path) != path.name]
        for path in damaged:
            try:
                remove_durably(path)
            except OSError as error:  # on a disk that has become read-only; it is never used
                log.warning("cannot remove %s, which is damaged: %s", path, error)
                continue
            found.append(f"{path.relative_to(self.folder)} was damaged, and was removed; it will be made again")
        return [sentence for sentence in found if sentence]

    def remove_leftovers(self) -> None:
        """Remove the half-written files of processes that were killed, and what earlier releases kept of a room."""
        for folder in (self.folder, self.outbox.folder, self.blobs.folder):
            for path in leftovers(folder) if folder.is_dir() else ():
                if _HALF_WRITTEN.fullmatch(path.name):
                    path.unlink()
        remove_durably(self.folder / "room.safetensors")

    def save_advice(self, advice: list[dict[str, Any]]) -> None:
        """Keep what would help the labels that were taught; see :meth:`advice`."""
        self.database.set_note(_ADVICE, advice, durable=False)

    def advice(self) -> list[dict[str, Any]]:
        """Return an object for each label (``learning.teaching.advice.Advice``); none where they are damaged."""
        return list(self.database.note(_ADVICE) or ())


def _mended(path: Path) -> str:
    try:
        return mend_twice(path)
    except OSError as error:  # a full disk: one of both is whole, and there will be another time
        log.warning("cannot make %s and its copy equal: %s", path, error)
        return ""


def _is_damaged(path: Path) -> bool:
    try:
        read_checked(path)
    except DamagedError:
        return True
    return False
