"""A share of the device's own clips that it never trains on, so that it can tell which of two models serves it better.

Split by source, as a corpus is split by speaker: a model that knows a voice, or one recording's noise, would look
better than it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from edge_client.audio.recordings import Recordings, speaker_of
from fleet_protocol.arrays import Floats

HELD_OUT = 0.2
"""Share of a device's clips that no round trains on, where the round's plan names none."""
FEWEST = 8
"""Clips from which a comparison of two models says something.

Take a model that loses a quarter of what another recognises and gains a twentieth: of 8 clips it names fewer with a
probability of 0.78, and with 0.95 where it loses 45 %; of 4 clips with 0.60 and 0.83. And 8 are a fifth of 40.
"""


class Split:
    """A :class:`edge_client.capture.ClipSource` of the clips to train on; :attr:`held_out` is one of the others.

    Attributes:
        held_out: Clips to evaluate models on, the same ones in every round.
    """

    def __init__(self, recordings: Recordings, share: float, *, fewest: int = 0, evaluating: bool = False) -> None:
        """Split what is in the folder now.

        Args:
            recordings: all clips.
            share: to be held out, 0 (none) to 1.
            fewest: where fewer than so many would be held out, none are.
            evaluating: whether to deliver the clips that are held out, instead of the others.
        """
        self._recordings = recordings
        self._share, self._fewest = share, fewest
        self._evaluating = evaluating
        clips = {label: recordings.clips(label) for label in recordings.labels()}
        chosen = held_out(clips, share) if share > 0 else frozenset()
        self._held_out = chosen if len(chosen) >= fewest else frozenset()

    @property
    def held_out(self) -> Split:
        """The other part."""
        return Split(self._recordings, self._share, fewest=self._fewest, evaluating=True)

    def labels(self) -> tuple[str, ...]:
        """Return the labels that have clips now, held out or not."""
        return self._recordings.labels()

    def clips_for_round(self, round_number: int, label: str) -> list[Path]:
        """Return a label's clips for a round without those held out; or all of those."""
        if self._evaluating:
            return [path for path in self._recordings.clips(label) if path in self._held_out]
        drawn = self._recordings.clips_for_round(round_number, label)
        return [path for path in drawn if path not in self._held_out]

    def load(self, clips: Sequence[Path]) -> Floats:
        """Return float32 [clips, samples], as :meth:`Recordings.load` does."""
        return self._recordings.load(clips)


def held_out(clips: Mapping[str, Sequence[Path]], share: float) -> frozenset[Path]:
    """Choose the clips to hold out: whole sources in the order of their names' digests, as near to the share as may be.

    A device that hears mostly one source, or too few to leave one out, holds out single clips instead: its model is
    to serve those whom it hears. A label that would keep no clip to train on holds none out.
    """
    paths = [path for label in sorted(clips) for path in clips[label]]
    wanted = share * len(paths)
    by_source: dict[str, list[Path]] = {}
    for path in paths:
        by_source.setdefault(speaker_of(path), []).append(path)
    one_by_one = {f"{path.parent.name}/{path.name}": [path] for path in paths}
    largest = max(map(len, by_source.values()), default=0)
    chosen = _fill(by_source if largest <= len(paths) / 2 else one_by_one, wanted)
    if len(chosen) < wanted / 2:
        chosen = _fill(one_by_one, wanted)
    for label in clips:
        if chosen.issuperset(clips[label]):
            chosen.difference_update(clips[label])
    return frozenset(chosen)


def _fill(sources: Mapping[str, Sequence[Path]], wanted: float) -> set[Path]:
    """Take every source that brings the number of clips nearer to the one wanted."""
    chosen: set[Path] = set()
    for source in sorted(sources, key=_digest):
        if len(chosen) + len(sources[source]) / 2 <= wanted:
            chosen.update(sources[source])
    return chosen


def _digest(name: str) -> bytes:
    return hashlib.sha256(name.encode(errors="surrogateescape")).digest()
