"""What the device hears at this moment, for whoever watches: level, spectrum, scores and events, hop by hop."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import Any

# Socket in the state folder; under systemd a link to one in the runtime folder.
SOCKET = "live.sock"
# Datagrams are whole or not there at all, so one of them never needs more than this.
LARGEST = 1 << 17


@dataclass(frozen=True)
class Moment:
    """One hop of the sound, as the detector saw it.

    Attributes:
        time: End of the hop, in seconds since 1970, UTC.
        level_db: Loudest column of the spectrum, dB full scale.
        levels_db: Level of each column.
        columns: Spectrum, ``edge_client.live.feed.BANDS`` bytes a column, oldest column and lowest band first.
        column_s: Time from one column to the next, s.
        scores: Averaged score of every label, 0..1.
        thresholds: Averaged score from which each label counts as heard, 0..1.
        heard: Events in this hop, as ``Event.to_json`` has them.
    """

    time: float
    level_db: float
    levels_db: tuple[float, ...] = ()
    columns: bytes = b""
    column_s: float = 0.0
    scores: dict[str, float] = field(default_factory=dict)
    thresholds: dict[str, float] = field(default_factory=dict)
    heard: tuple[dict[str, Any], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the moment JSON-ready, the spectrum in base64."""
        return vars(self) | {"columns": base64.b64encode(self.columns).decode()}

    def encode(self) -> bytes:
        """Return the moment as a datagram."""
        return json.dumps(self.to_json(), separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> Moment:
        """Read a datagram of :meth:`encode`. Raises ValueError if it is none."""
        try:
            document = json.loads(data)
            document |= {name: tuple(document[name]) for name in ("levels_db", "heard")}
            return cls(**document | {"columns": base64.b64decode(document["columns"])})
        except (TypeError, KeyError) as error:
            raise ValueError(f"not a moment: {error}") from error
