"""Finds sounds of which it is doubtful whether they are a label: near misses, and detections that barely were one.

A sound's margin is how far its averaged score got beyond the label's threshold, on the logit scale. What got within
:data:`REACH` of it, below or above, is worth a question (uncertainty sampling, Lewis & Gale 1994).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from edge_client.audio.recordings import since_pause
from edge_client.detection.thresholds import logits
from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.numbers.arrays import Floats

REACH = 2.0
"""Logits about the threshold within which a sound is doubtful."""
# Length of a sound at most, and time from one doubt to the next: of a noise that stays near a threshold few are told.
_LONGEST_S, _PAUSE_S = 5.0, 10.0


@dataclass(frozen=True)
class Doubt:
    """A sound of which it is doubtful whether it is a label."""

    time: float  # of its highest score, or of its event where it was detected, seconds since 1970
    label: str  # that it may be
    detected: bool
    score: float  # averaged score of the label then, 0..1
    margin: float  # logits by which it got beyond the threshold at most; negative for a near miss
    sound: Floats  # float32 [samples]; of a word from where it may have begun
    embedding: Floats  # features of the window, float32 [numbers]


class Doubts:
    """Follows the best label's score, window by window, and tells each doubtful sound once it is over."""

    def __init__(self, settings: FeatureSettings, tell: Callable[[Doubt], None]) -> None:
        """Begin. A sound is over when its label was below reach for as long as a clip is; ``tell`` must not wait."""
        self._settings, self._tell = settings, tell
        self._told_s = -np.inf
        self.reset()

    def reset(self) -> None:
        """Forget the sound that has begun: other labels are listened for from now on."""
        self._sound: Doubt | None = None
        self._began_s = self._seen_s = 0.0

    def update(
        self,
        at_s: float,
        now: float,
        label: str,
        score: float,
        threshold: float,
        embedding: Floats | None,
        sound: Floats,
        *,
        detected: bool,
    ) -> None:
        """Take one window's sound, float32 [samples], of which a copy is kept, and its best label.

        ``at_s``: time in the stream, s; ``now``: seconds since 1970; ``score``: averaged; ``embedding``: features of
        the window, None where it was too quiet to be classified.
        """
        below, above = logits(np.array([threshold, score], np.float32))
        margin = float(above - below)
        if embedding is not None and (detected or margin >= -REACH):
            self._take(Doubt(now, label, detected, score, margin, sound, embedding.ravel()), at_s)
        over = at_s - self._seen_s >= self._settings.clip_s or at_s - self._began_s >= _LONGEST_S
        if self._sound is not None and over:
            self._end(at_s)

    def _take(self, seen: Doubt, at_s: float) -> None:
        sound = self._sound
        if sound is not None and seen.detected and sound.detected:
            self._end(at_s)  # the next word comes before the first is over
            sound = None
        self._seen_s = at_s
        if sound is None:
            self._began_s = at_s
        elif sound.detected and not seen.detected:
            same = sound.label == seen.label
            self._sound = replace(sound, margin=max(sound.margin, seen.margin)) if same else sound
            return
        elif not seen.detected and seen.margin <= sound.margin:
            return
        self._sound = replace(seen, sound=seen.sound.copy(), embedding=seen.embedding.copy())

    def _end(self, at_s: float) -> None:
        sound = self._sound
        self.reset()
        if sound is not None and abs(sound.margin) <= REACH and at_s - self._told_s >= _PAUSE_S:
            self._told_s = at_s
            self._tell(replace(sound, sound=since_pause(sound.sound, self._settings)))
