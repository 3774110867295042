"""What is built into a front end: the classifiers that its networks came with, of everyday sounds and of words.

The classifier of sounds is a hidden layer with hard-swish and a row for each class of its training. A label may stand
for several classes; its logit is the highest of theirs. The rows' biases are such that other sounds reach
:data:`ONCE_AN_HOUR` once an hour, as ``model_export.sounds.known`` reckons. That of words is one layer with softmax.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleet_protocol.errors import BundleError
from fleet_protocol.numbers.arrays import Array, Floats

ONCE_AN_HOUR = 1.5
"""Logit that sounds other than the label's reach once an hour among many of them."""
_ARRAYS = ("known_hidden", "known_hidden_bias", "known_rows", "known_bias", "known_sound")
_WORDS = ("known_words_kernel", "known_words_bias")
_LEAST_SHARE = 1e-7  # of all other outputs together: the logit stays finite


@dataclass(frozen=True)
class KnownSounds:
    """What recognises sounds that nobody taught."""

    names: tuple[str, ...]  # Of the sounds
    hidden: Floats  # Kernel of the hidden layer, float32 [numbers, units]
    hidden_bias: Floats  # Its bias, float32 [units]
    rows: Floats  # A row for each class, float32 [units, classes]
    bias: Floats  # Their biases, float32 [classes]
    sound: NDArray[np.int64]  # Which of ``names`` each class belongs to, int64 [classes]

    def logits(self, embeddings: Floats, names: tuple[str, ...]) -> Floats:
        """Return the logits of some of the sounds, float32 [windows, names], of embeddings, float32 [windows, any].

        The numbers of this network are the embeddings' last. Raises ValueError if a name is not known.
        """
        x = self.units(embeddings)
        found = np.empty((len(embeddings), len(names)), np.float32)
        for column, name in enumerate(names):
            classes = np.flatnonzero(self.sound == self.names.index(name))
            found[:, column] = (x @ self.rows[:, classes] + self.bias[classes]).max(axis=1)
        return found

    def units(self, embeddings: Floats) -> Floats:
        """Return the hidden layer's units, float32 [windows, units], on which the rows of all classes act."""
        x: Floats = embeddings[:, -len(self.hidden) :] @ self.hidden + self.hidden_bias
        x *= np.clip(x + 3, 0, 6) / 6
        return x

    def arrays(self) -> dict[str, Array]:
        """Return what :meth:`of` reads, weights as float16."""
        weights = (self.hidden, self.hidden_bias, self.rows, self.bias)
        return {name: array.astype(np.float16) for name, array in zip(_ARRAYS, weights, strict=False)} | {
            _ARRAYS[-1]: self.sound
        }

    @classmethod
    def of(cls, arrays: Mapping[str, Array], names: Any) -> KnownSounds | None:  # noqa: ANN401
        """Read what :meth:`arrays` made; None where nothing is known. Raises BundleError: they do not fit."""
        if not names:
            return None
        try:
            hidden, hidden_bias, rows, bias = (arrays[name].astype(np.float32) for name in _ARRAYS[:-1])
            sound = arrays[_ARRAYS[-1]].astype(np.int64)
            known = cls(tuple(map(str, names)), hidden, hidden_bias, rows, bias, sound)
            shapes = hidden_bias.shape, (hidden.shape[1], len(sound)), sound.shape
            fits = (hidden.shape[1:], rows.shape, bias.shape) == shapes
            if not fits or set(sound.tolist()) != set(range(len(known.names))):
                raise ValueError("their shapes differ")
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise BundleError(f"the built-in sounds cannot be read ({error}); make the bundle again") from error
        return known


@dataclass(frozen=True)
class KnownWords:
    """What recognises words of the pretraining that nobody taught."""

    names: tuple[str, ...]  # Of the words
    kernel: Floats  # Of the layer, float32 [numbers, words + 1]: the last output is noise
    bias: Floats  # Its bias, float32 [words + 1]

    def logits(self, embeddings: Floats, names: tuple[str, ...]) -> Floats:
        """Return the logarithm of the odds that it is one of the words and nothing else, float32 [windows, names].

        The numbers of this network are the first of the embeddings, float32 [windows, any]. Raises ValueError if a name
        is not known.
        """
        x = embeddings[:, : len(self.kernel)] @ self.kernel + self.bias
        shares = np.exp(x - x.max(axis=1, keepdims=True, initial=-np.inf), dtype=np.float64)
        shares /= shares.sum(axis=1, keepdims=True)
        own = shares[:, [self.names.index(name) for name in names]]
        return np.asarray(np.log(np.maximum(own, _LEAST_SHARE)) - np.log(np.maximum(1 - own, _LEAST_SHARE)), np.float32)

    def arrays(self) -> dict[str, Array]:
        """Return what :meth:`of` reads, as float16."""
        return dict(zip(_WORDS, (self.kernel.astype(np.float16), self.bias.astype(np.float16)), strict=True))

    @classmethod
    def of(cls, arrays: Mapping[str, Array], words: tuple[str, ...]) -> KnownWords | None:
        """Read what :meth:`arrays` made of a pretraining's words; None where nothing is. Raises BundleError: no fit."""
        if not {*_WORDS} & arrays.keys():
            return None
        found = {name: arrays[name].shape for name in _WORDS if name in arrays}
        numbers, outputs = arrays["means"].shape[1], len(words) + 1
        if found != dict(zip(_WORDS, ((numbers, outputs), (outputs,)), strict=True)):
            raise BundleError(f"the built-in words do not fit the bundle ({found}); make it again")
        return cls(words, *(arrays[name].astype(np.float32) for name in _WORDS))


@dataclass(frozen=True)
class Known:
    """What is built into front ends: nothing, everyday sounds, words, or both."""

    of_sounds: KnownSounds | None = None
    of_words: KnownWords | None = None

    @cached_property
    def sounds(self) -> tuple[str, ...]:
        """Names of the everyday sounds."""
        return () if self.of_sounds is None else self.of_sounds.names

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Names of the words; one that is a sound's name is the sound."""
        return () if self.of_words is None else tuple(name for name in self.of_words.names if name not in self.sounds)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all."""
        return (*self.sounds, *self.words)

    def logits(self, embeddings: Floats, names: tuple[str, ...]) -> Floats:
        """Return logits, float32 [windows, names], of embeddings, float32 [windows, numbers].

        Those of words and of sounds mean different things. Raises ValueError if a name is not known.
        """
        found = np.empty((len(embeddings), len(names)), np.float32)
        of_sounds = np.array([name in self.sounds for name in names], bool)
        for one, columns in ((self.of_sounds, of_sounds), (self.of_words, ~of_sounds)):
            if columns.any():
                asked = tuple(name for name, is_asked in zip(names, columns, strict=True) if is_asked)
                if one is None:
                    raise ValueError(f"{asked} not in {self.names}")
                found[:, columns] = one.logits(embeddings, asked)
        return found
