"""Names as rows of bytes: how an aggregation's state says whose its other rows are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fleet_protocol.arrays import Array


def as_rows(names: Sequence[str], width: int) -> Array:
    """Return names as uint8 [names, width]; ``width`` is the most bytes that one has in UTF-8."""
    return np.frombuffer(b"".join(name.encode().ljust(width, b"\0") for name in names), np.uint8).reshape(-1, width)


def from_rows(rows: Array) -> list[str]:
    """Return the names that :func:`as_rows` wrote."""
    return [row.tobytes().rstrip(b"\0").decode() for row in rows]
