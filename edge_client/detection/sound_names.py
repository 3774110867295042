"""Names for sounds that nobody taught: guesses from all that a front end's network learned of AudioSet.

The network came with a classifier of 527 classes (:mod:`fleet_protocol.numbers.known`). Their rows lie in one file
beside the front ends, folded to some two hundred words that a home uses. A word's logit is the highest of its classes;
the words share one softmax. A guess costs one product of a vector and a matrix, of an embedding that exists already.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.bundle.ready_bundles import FRONT_ENDS
from fleet_protocol.errors import AuricleError, BundleError
from fleet_protocol.numbers.arrays import Floats
from fleet_protocol.numbers.embedding_statistics import EmbeddingStatistics
from fleet_protocol.numbers.known import KnownSounds
from fleet_protocol.numbers.tensors import Arrays, pack, unpack

log = logging.getLogger(__name__)

FILE = FRONT_ENDS / "sounds_names.safetensors"
"""The rows that ship."""
_LIKELY = 0.5  # The words of a guess are together likelier than all others
MOST = 3
"""Words of a guess, at most."""
_LOOK_BACK_S = 10.0


@dataclass(frozen=True)
class SoundNames:
    """Rows of the classes that have a word; those of a word follow one another."""

    network: str  # SHA-256 digest of the front end's network
    words: tuple[str, ...]
    rows: Floats  # A row for each class, float32 [units, classes]
    bias: Floats  # float32 [classes]
    first: NDArray[np.intp]  # Where the classes of each word begin, [words]; NumPy of 32 bits takes no int64 here

    def shares(self, units: Floats) -> Floats:
        """Return how likely each word is, float32 [windows, words], of a hidden layer's units, [windows, units]."""
        logits = np.maximum.reduceat(units @ self.rows + self.bias, self.first, axis=1)
        shares: Floats = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        return shares

    def pack(self) -> bytes:
        """Return a safetensors file, rows as float16."""
        arrays: Arrays = {"rows": self.rows.astype(np.float16), "bias": self.bias, "first": self.first.astype(np.int64)}
        return pack(arrays, {"network": self.network, "words": list(self.words)})

    @classmethod
    def read(cls, path: Path = FILE) -> SoundNames:
        """Read what :meth:`pack` made. Raises BundleError: it cannot be read, or its parts do not fit one another."""
        try:
            arrays, document = unpack(path.read_bytes())
            rows, bias = (arrays[name].astype(np.float32) for name in ("rows", "bias"))
            first, words = arrays["first"].astype(np.intp), tuple(map(str, document["words"]))
            found = cls(str(document["network"]), words, rows, bias, first)
            fits = (rows.shape[1:], first.shape) == (bias.shape, (len(words),)) and np.isfinite(rows).all()
            if not (fits and len(words) and first[0] == 0 and (np.diff([*first, len(bias)]) > 0).all()):
                raise ValueError("their shapes differ")
        except (OSError, KeyError, TypeError, ValueError, IndexError, AuricleError) as error:
            raise BundleError(
                f"the names of sounds in {path} cannot be read ({error}); install Auricle again"
            ) from error
        return found


_read_once = lru_cache(maxsize=1)(SoundNames.read)  # what listens and what asks have the same


@dataclass(frozen=True)
class Guesser:
    """Guesses what a window of a front end is; the rows are read at the first guess."""

    known: KnownSounds
    network: str
    path: Path = FILE

    @classmethod
    def of(cls, settings: FeatureSettings, statistics: EmbeddingStatistics | None) -> Guesser | None:
        """Return it; None of a front end that does not hear sounds. One with other rows than ship guesses nothing."""
        known = None if statistics is None else statistics.known.of_sounds
        return None if known is None else cls(known, settings.networks[-1].sha256)

    @cached_property
    def names(self) -> SoundNames | None:
        """The rows; None where there are none of this network, or these are damaged."""
        try:
            found = _read_once(self.path) if self.path.exists() else None
        except BundleError as error:  # listening matters more than names
            log.warning("%s; no sound is guessed until then", error)
            return None
        fits = found is not None and (found.network, len(found.rows)) == (self.network, self.known.hidden.shape[1])
        return found if fits else None

    def shares(self, embeddings: Floats) -> Floats:
        """Return how likely each word is, float32 [windows, words], of embeddings, float32 [windows, numbers]."""
        if self.names is None:
            return np.zeros((len(embeddings), 0), np.float32)
        return self.names.shares(self.known.units(embeddings))

    def likeliest(self, shares: Floats) -> dict[str, float]:
        """Return by their words the highest shares that are together half of all, [words]; none where three are not."""
        if self.names is None:
            return {}
        best = np.argsort(-shares, kind="stable")[:MOST]
        together = np.cumsum(shares[best])
        if not together[-1] >= _LIKELY:
            return {}
        told = best[: 1 + int(np.argmax(together >= _LIKELY))]
        return {self.names.words[number]: float(shares[number]) for number in told}

    def guess(self, embedding: Floats) -> tuple[str, ...]:
        """Return what a window may be, the likeliest first, by its embedding, float32 [numbers]."""
        return tuple(self.likeliest(self.shares(embedding[None])[0]))


class LatelyHeard:
    """The likeliest words of the last ten seconds, for somebody who watches; of one stream."""

    def __init__(self, guesser: Guesser) -> None:
        self._guesser = guesser
        self._guesses: deque[tuple[float, dict[str, float]]] = deque()

    def update(self, at_s: float, embedding: Floats | None) -> Sequence[tuple[str, float]]:
        """Take the newest window, float32 [numbers], None where it was too quiet; return words and their shares."""
        if embedding is not None:
            self._guesses.append((at_s, self._guesser.likeliest(self._guesser.shares(embedding[None])[0])))
        while self._guesses and not 0 <= at_s - self._guesses[0][0] < _LOOK_BACK_S:
            self._guesses.popleft()
        highest: dict[str, float] = {}
        for _, guess in self._guesses:
            for word, share in guess.items():
                highest[word] = max(share, highest.get(word, 0.0))
        return sorted(highest.items(), key=lambda item: -item[1])[:MOST]
