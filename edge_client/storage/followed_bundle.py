"""The bundle that a device changed to with its fleet, in place of the configuration's: one small file of the state.

The configuration may belong to somebody else than the daemon, so the daemon does not write it. What the file says holds
as long as the configuration names the bundle that it was written for: an owner who names another one has decided anew.
"""

from __future__ import annotations

import json
from pathlib import Path

from edge_client.errors import DamagedError
from edge_client.storage.checked_files import read_checked, write_checked
from fleet_protocol.errors import BundleError
from fleet_protocol.ready_bundles import find_bundle

FILE = "followed-bundle.json"


def follow_bundle(folder: Path, configured: Path, name: str) -> None:
    """Use a ready bundle from now on, in place of the configured one; "" for the configured one itself."""
    write_checked(folder / FILE, json.dumps({"in_place_of": str(configured), "bundle": name}).encode())


def has_followed(folder: Path, configured: Path) -> bool:
    """Return whether the device changed its bundle with its fleet since the configuration names this one."""
    return _name(folder, configured) is not None


def bundle_in_use(folder: Path, configured: Path) -> Path:
    """Return the file of the bundle in use: the configured one, unless the device changed to another.

    It is the configured one, too, where the file is damaged or this release has no such bundle any more.
    """
    try:
        name = _name(folder, configured)
        return find_bundle(name) if name else configured
    except BundleError:
        return configured


def _name(folder: Path, configured: Path) -> str | None:
    try:
        found = json.loads(read_checked(folder / FILE))
        return str(found["bundle"]) if found["in_place_of"] == str(configured) else None
    except (OSError, DamagedError, ValueError, KeyError, TypeError):
        return None
