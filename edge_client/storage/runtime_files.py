"""Places for what the daemon writes again and again, or that lives only as long as it does.

Under systemd that is the runtime folder, which is memory: an SD card is worn out by writing. The state folder then
holds a link, so that whoever knows the configuration finds it.
"""

from __future__ import annotations

import os
from pathlib import Path


def runtime_path(folder: Path, name: str) -> Path:
    """Return where a file of this name belongs; the state folder has a link to it where it is elsewhere.

    Raises:
        OSError: the state folder cannot be written.
    """
    link = folder / name
    runtime = os.environ.get("RUNTIME_DIRECTORY", "").split(":")[0]
    path = Path(runtime) / name if runtime else link
    if runtime or link.is_symlink():
        link.unlink(missing_ok=True)
    if runtime:
        link.symlink_to(path)
    return path


def in_memory() -> bool:
    """Return whether those places are memory."""
    return bool(os.environ.get("RUNTIME_DIRECTORY"))
