"""What a table comes to for a user, in a sentence or two: the first line of its section, and a row of the head."""

from __future__ import annotations

import re

_BEGINS = "**In short.** "


def in_short(*sentences: str) -> str:
    """Return the line."""
    return f"{_BEGINS}{' '.join(sentences)}\n"


def in_short_of(section: str) -> str:
    """Return what :func:`in_short` put into a section; nothing where it has no such line."""
    found = re.search(rf"(?m)^{re.escape(_BEGINS)}(.*)$", section)
    return found.group(1) if found else ""
