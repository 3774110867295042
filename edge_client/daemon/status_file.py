"""What the daemon says of itself while it runs: a small file that `auricle-edge status` reads."""

from __future__ import annotations

import json
import time
from typing import Any

from edge_client.errors import StateError
from edge_client.storage.device_state import DeviceState
from edge_client.storage.runtime_files import in_memory, runtime_path
from edge_client.storage.saved_model import Progress
from fleet_protocol.atomic_files import write_atomically
from fleet_protocol.tensors import digest

_NAME = "status.json"


class StatusFile:
    """Written by the daemon, again and again; in memory, where systemd gives it a runtime folder."""

    def __init__(self, state: DeviceState) -> None:
        """Choose the place."""
        self.in_memory = in_memory()
        self.path = runtime_path(state.folder, _NAME)

    def write(self, status: dict[str, Any]) -> None:
        """Replace the file. It is not flushed to the disk: after a power cut nobody wants it.

        Raises:
            OSError: the disk refuses.
        """
        content = status | {"time": time.time()}
        write_atomically(self.path, json.dumps(content | {"sha256": _digest(content)}).encode() + b"\n")


def model_status(progress: Progress) -> dict[str, Any]:
    """Return what the status says of the model: labels, and what became of the last round's result.

    ``round`` has its number, whether the device kept its own model, and the metrics by which it decided; None before
    the first. ``not_listened_for`` are labels that the model that listens never learned.
    """
    names, given_up = progress.label_map.names, progress.label_map.given_up
    judged = dict(progress.judged)
    kept_own = bool(judged.pop("kept_own", 0.0))
    return {
        "architecture": progress.architecture,
        "labels": progress.label_map.labels,
        "provisional": progress.provisional_labels,
        "not_listened_for": [names[slot] for slot in progress.unheard if slot not in given_up],
        "round": {"round_id": progress.learned, "kept_own": kept_own, **judged} if progress.judged else None,
    }


def _digest(status: dict[str, Any]) -> str:
    return digest(json.dumps(status).encode())


def read_status(state: DeviceState) -> dict[str, Any]:
    """Return the last status with ``running``: whether the daemon that wrote it still runs.

    Raises:
        StateError: no daemon ever ran here, or the file is damaged.
    """
    running = state.locked("daemon")
    try:
        status = json.loads((state.folder / _NAME).read_bytes())
        if not isinstance(status, dict) or status.pop("sha256", None) != _digest(status):
            raise ValueError("it does not match its digest")
    except FileNotFoundError:
        status = {}
    except (ValueError, RecursionError) as error:
        raise StateError(f"{state.folder / _NAME} is damaged ({error}); the daemon writes it anew") from error
    if not status and not running:
        raise StateError(f"no daemon has run with the state folder {state.folder}; start it with: auricle-edge run")
    return status | {"running": running}
