"""Notices a stream that delivers nothing but zeros, as some drivers do when a microphone has crashed."""

from __future__ import annotations

import numpy as np

from edge_client.errors import AudioError
from fleet_protocol.arrays import Floats

_LONGEST_S = 3_600.0


class SilenceWatch:
    """Measures exact digital silence, which no live microphone gives.

    A muted source gives it for ever, and opening it anew does not help; so every time the patience doubles, up to an
    hour, until something is heard.
    """

    def __init__(self, patience_s: float) -> None:
        """Begin with a patience in seconds."""
        self._first_patience_s = self._patience_s = patience_s
        self._silent_s = 0.0

    def hear(self, samples: Floats, rate_hz: int) -> None:
        """Take the next samples: float32 [any].

        Raises:
            AudioError: they and those before were zero for too long; the stream should be opened anew.
        """
        if np.any(samples):
            self._patience_s, self._silent_s = self._first_patience_s, 0.0
            return
        self._silent_s += len(samples) / rate_hz
        if self._silent_s >= self._patience_s:
            silent_s, self._silent_s = self._silent_s, 0.0
            self._patience_s = max(self._first_patience_s, min(2 * self._patience_s, _LONGEST_S))
            raise AudioError(
                f"nothing but digital zeros came for {silent_s:.0f} s (is it muted? look with `alsamixer`); "
                f"the next zeros are borne for {self._patience_s:.0f} s"
            )
