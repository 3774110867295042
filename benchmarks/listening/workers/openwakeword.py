"""openWakeWord: Google's speech embedding, frozen, and for each label a small network on its last 16 columns.

The head is that of openWakeWord's `train.py`: 16 x 96 numbers, two layers of 32, one output, one network a label
(without its layer normalisation, which scikit-learn lacks). Its authors train against thousands of hours of features
that must be downloaded; here other words of the training speakers, the other labels and backgrounds take their place.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.listening.workers.protocol import RATE_HZ, clips, run

_COLUMNS, _NUMBERS, _WINDOW, _STEP, _HOP = 16, 96, 76, 8, 1280
# Two seconds; the word ends up to so much before their end.
_CLIP, _JITTER = 2 * RATE_HZ, int(0.3 * RATE_HZ)
_VARIANTS, _SNR_DB, _GAIN_DB = 4, (0.0, 30.0), (-10.0, 6.0)
# Sound before a request's that its first columns need.
_CONTEXT = 32_000 + 480


class OpenWakeWord:
    """Embeds sound, many columns in one call, and scores them by one network a label."""

    hop_samples = _HOP
    threshold = 0.5

    def __init__(self, folder: Path) -> None:
        """Train on ``train/<label>``, ``others/<word>`` and ``noise/<name>``."""
        import pyopen_wakeword
        from ai_edge_litert.interpreter import Interpreter

        models = Path(pyopen_wakeword.__file__).parent / "models"
        self._mel, self._embedding = (
            Interpreter(str(models / f"{name}.tflite"), num_threads=1) for name in ("melspectrogram", "embedding_model")
        )
        self._before = np.zeros(_CONTEXT, np.int16)
        train = clips(folder / "train")
        self.labels = tuple(train)
        others = [clip for found in clips(folder / "others").values() for clip in found]
        self._noise = [clip for found in clips(folder / "noise").values() for clip in found]
        rng = np.random.default_rng(0)
        rows = {label: self._rows(found, _VARIANTS, rng) for label, found in train.items()}
        negatives = np.concatenate([self._rows(others, 1, rng), self._rows(self._noise, 20, rng, pure=True)])
        self._heads = [self._head(rows, label, negatives) for label in self.labels]

    def reset(self) -> None:
        """Begin a new stream."""
        self._before = np.zeros(_CONTEXT, np.int16)

    def scores(self, samples: NDArray[np.int16]) -> NDArray[np.float32]:
        """Return the probability of every label at the end of every 80 ms."""
        heard = np.concatenate([self._before, samples])
        self._before = heard[-_CONTEXT:]
        hops = len(samples) // _HOP
        columns = self._columns(heard)[-(hops + _COLUMNS - 1) :]
        windows = np.stack([columns[hop : hop + _COLUMNS].ravel() for hop in range(hops)])
        found = [head.predict_proba(windows)[:, 1] for head in self._heads]
        return np.asarray(np.stack(found, axis=1), np.float32)

    def _columns(self, samples: NDArray[np.int16]) -> NDArray[np.float32]:
        """Return the embedding of every 80 ms, float32 [columns, 96]."""
        mel = _call(self._mel, samples[None].astype(np.float32)).reshape(-1, 32) / 10 + 2
        count = (len(mel) - _WINDOW) // _STEP + 1
        first = len(mel) - (_WINDOW + _STEP * (count - 1))  # the newest column ends with the newest sample
        columns = _call(self._embedding, mel[None, first:, :, None].astype(np.float32))
        return np.asarray(columns.reshape(-1, _NUMBERS), np.float32)

    def _rows(
        self, found: list[NDArray[np.int16]], variants: int, rng: np.random.Generator, *, pure: bool = False
    ) -> NDArray[np.float32]:
        rows = []
        for clip in found:
            for _ in range(variants):
                window = self._stretch(clip, rng) if pure else self._placed(clip, rng)
                rows.append(self._columns(window)[-_COLUMNS:].ravel())
        return np.stack(rows)

    def _placed(self, clip: NDArray[np.int16], rng: np.random.Generator) -> NDArray[np.int16]:
        """Return two seconds at whose end a word lies, louder or softer, in a background."""
        end = _CLIP - int(rng.integers(_JITTER))
        word = clip[:RATE_HZ].astype(np.float64) * 10 ** (rng.uniform(*_GAIN_DB) / 20)
        background = self._stretch(self._noise[rng.integers(len(self._noise))], rng).astype(np.float64)
        level = np.sqrt(np.mean(word**2)) / (np.sqrt(np.mean(background**2)) + 1)
        mixed = background * level * 10 ** (-rng.uniform(*_SNR_DB) / 20)
        mixed[end - len(word) : end] += word
        return np.asarray(np.clip(mixed, -32_768, 32_767), np.int16)

    def _stretch(self, noise: NDArray[np.int16], rng: np.random.Generator) -> NDArray[np.int16]:
        return np.asarray(np.resize(np.roll(noise, -int(rng.integers(len(noise)))), _CLIP), np.int16)

    def _head(self, rows: dict[str, NDArray[np.float32]], label: str, negatives: NDArray[np.float32]) -> Any:  # noqa: ANN401
        from sklearn.neural_network import MLPClassifier
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        others = [found for name, found in rows.items() if name != label]
        x = np.concatenate([rows[label], *others, negatives])
        y = np.arange(len(x)) < len(rows[label])
        network = MLPClassifier((32, 32), alpha=1e-3, early_stopping=True, random_state=0, max_iter=60)
        return make_pipeline(StandardScaler(), network).fit(x, y)


def _call(interpreter: Any, x: NDArray[np.float32]) -> NDArray[np.float32]:  # noqa: ANN401
    index = interpreter.get_input_details()[0]["index"]
    interpreter.resize_tensor_input(index, x.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(index, x)
    interpreter.invoke()
    result: NDArray[np.float32] = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    return result


if __name__ == "__main__":
    run(OpenWakeWord)
