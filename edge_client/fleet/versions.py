"""What a device runs: its program, bundle, runtime, Python and system, as it reports to its aggregator."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

from edge_client.model.interpreter import installed_runtime
from fleet_protocol.command_line import version
from fleet_protocol.limits import VERSION_LENGTH
from fleet_protocol.messages import Versions
from fleet_protocol.ready_bundles import FOLDER
from fleet_protocol.tensors import digest


@cache
def versions(bundle: Path) -> Versions:
    """Return what this process runs. An upgrade changes files under it, and counts when the process starts anew.

    Args:
        bundle: File of its bundle.

    Raises:
        OSError: it cannot be read.
        ModelError: the environment names a runtime that there is none of.
    """
    return Versions(
        program=_fit(version()),
        bundle=_fit(bundle.stem) if bundle.parent == FOLDER else "",
        bundle_sha256=digest(bundle.read_bytes()),
        runtime=_fit(installed_runtime()),
        python=_fit(platform.python_version()),
        system=_fit(f"{_system()}, {platform.machine()}"),
    )


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:  # a system without that file
        return platform.system()


def _fit(text: str) -> str:
    """Return a text as the aggregator takes it: printable, without blanks around it, not long."""
    return "".join(character for character in text if character.isprintable())[:VERSION_LENGTH].strip()
