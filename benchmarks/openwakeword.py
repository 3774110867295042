"""openWakeWord's custom verifier in :mod:`benchmarks.own_words`, by the networks of a checkout of its repository.

It listens and learns as its documents say: a logistic regression on the last 16 embeddings, of takes and other speech.
There it verifies what a network for the word heard. No such network knows these words: its logit alone is the score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from sklearn.linear_model import LogisticRegression

from benchmarks.command import BenchmarkError
from benchmarks.listening.material import RATE_HZ, Clip, Half, make_stream
from benchmarks.listening.measurement import Listened
from benchmarks.listening.own_words import Owner
from edge_client.config.sections import DetectorConfig
from fleet_protocol.numbers.arrays import Doubles, Floats

_HOP, _MORE = 1280, 480  # samples; those before a hop that its frames need
_FRAMES, _PER_HOP, _BINS, _LAST = 76, 8, 32, 16
# How often a take is heard, each time at another place, in noise of these ratios; the time after it began in which the
# windows end that count as the word.
_TIMES, _SNRS_DB, _ENDS_S = 5, (60.0, 20.0, 10.0), (0.8, 1.2)


class OpenWakeWord:
    """Verifiers of each device's labels."""

    name = "openwakeword"

    def __init__(
        self, folder: Path, people: Sequence[Owner], room: Sequence[Floats], talk: Callable[..., Iterable[Floats]]
    ) -> None:
        """Open the networks, else raise BenchmarkError; learn takes, and ``talk`` of backgrounds and a ratio in dB."""
        self._mel, self._embedding = (_network(folder, name) for name in ("melspectrogram", "embedding_model"))
        half = Half((), tuple(room))
        others = np.concatenate([_windows(self._embedded(talk(half, snr_db))) for snr_db in _SNRS_DB])
        self._verifiers = [
            {label: self._verifier([Clip(label, path) for path in takes], half, others) for label, takes in by.items()}
            for by in (owner.takes for owner in people)
        ]

    def _embedded(self, parts: Iterable[Floats]) -> Floats:
        """Return the embedding at each hop of a stream, float32 [hops, 96]."""
        frames, samples = np.ones((_FRAMES - _PER_HOP, _BINS), np.float32), np.zeros(_MORE, np.float32)
        found = []
        for part in parts:
            samples = np.concatenate([samples, np.round(part * 32_767)])
            starts = range(0, len(samples) - _MORE - _HOP + 1, _HOP)
            heard = [self._mel(samples[None, at : at + _MORE + _HOP]).reshape(-1, _BINS) / 10 + 2 for at in starts]
            samples, frames = samples[len(starts) * _HOP :], np.concatenate([frames, *heard])
            # The network pads nothing along time: of all frames it makes the embeddings of the windows of 76.
            found.append(self._embedding(frames[None, :, :, None]).reshape(len(starts), -1))
            frames = frames[len(starts) * _PER_HOP :]
        return np.concatenate(found)

    def _verifier(self, takes: Sequence[Clip], room: Half, others: Floats) -> tuple[Doubles, float]:
        """Return weights, float64 [16, 96], and a bias."""
        mine, half = [], Half(tuple(takes), room.backgrounds)
        for seed, snr_db in enumerate(_SNRS_DB * _TIMES):
            stream = make_stream(half, snr_db, np.inf, np.random.default_rng(seed))
            windows = _windows(self._embedded([stream.samples]))
            after_s = (np.arange(len(windows))[:, None] + _LAST) * _HOP / RATE_HZ - [w.begin_s for w in stream.words]
            mine.append(windows[((after_s > _ENDS_S[0]) & (after_s <= _ENDS_S[1])).any(axis=1)])
        rows = np.concatenate([*mine, others])
        is_word = np.arange(len(rows)) < len(rows) - len(others)
        mean, scale = rows.mean(axis=0), rows.std(axis=0)
        fit = LogisticRegression(C=0.001, max_iter=2000).fit((rows - mean) / scale, is_word)
        weights = fit.coef_[0] / scale
        return weights.reshape(_LAST, -1), float(fit.intercept_[0] - weights @ mean)

    def heard(self, parts: Iterable[Floats]) -> Callable[[int], Listened]:
        """Listen to a stream; return what says a device's logits, none averaged, none in its first 15 windows."""
        stream = self._embedded(parts)

        def of(number: int) -> Listened:
            labels, at_s = self._verifiers[number], np.arange(1, len(stream) + 1) * _HOP / RATE_HZ
            scores = np.full((len(stream), len(labels)), -np.inf, np.float32)
            for slot, (weights, bias) in enumerate(labels.values()):
                each = stream @ weights.T
                scores[_LAST - 1 :, slot] = bias + sum(each[k : len(each) - _LAST + 1 + k, k] for k in range(_LAST))
            return Listened(tuple(labels), (), scores, at_s, DetectorConfig(), float(at_s[-1]), release=1.0)

        return of


def _windows(rows: Floats) -> Floats:
    """Return the last 16 embeddings at each hop that has so many, float32 [hops - 15, 1536]."""
    windows = np.lib.stride_tricks.sliding_window_view(rows, _LAST, axis=0).transpose(0, 2, 1)
    return windows.reshape(len(windows), -1)


def _network(folder: Path, name: str) -> Callable[[Floats], Floats]:
    """Open a network wherever it lies in a folder; it takes any length."""
    if not (found := sorted(folder.rglob(f"{name}.tflite"))):
        raise BenchmarkError(f"there is no {name}.tflite in {folder}")
    signature = Interpreter(str(found[0]), num_threads=1).get_signature_runner()
    (given,), (made,) = signature.get_input_details(), signature.get_output_details()
    return lambda values: np.asarray(signature(**{given: values.astype(np.float32)})[made])
