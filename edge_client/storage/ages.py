"""How old something is on a device whose clock may have been wrong.

A board without a clock of its own starts in 1970, until it has the time; a clock that was once ahead leaves times of
the future. What has such a time is as old as the first look at it that was at a likely one.
"""

import os
from pathlib import Path

DAY_S = 86_400.0
FIRST_CLOCK_S = 1_600_000_000.0
"""No device of this project ran before that, seconds since 1970."""


def is_likely(moment: float, now: float) -> bool:
    """Return whether a time, in seconds since 1970, may have been that of a clock that was right."""
    return FIRST_CLOCK_S <= moment <= now + DAY_S


def age_s(path: Path, now: float, told: float = 0.0) -> float:
    """Return the age of a file, or folder, in seconds; ``told``: the time that its name tells.

    Where neither this nor its time is likely, it gets the present time. Raises OSError if that cannot be done.
    """
    for moment in (told, path.stat().st_mtime):
        if is_likely(moment, now):
            return now - moment
    os.utime(path, (now, now))
    return 0.0
