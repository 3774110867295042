"""Everyday sounds that a front end knows from the start: what is left of the classifier that its network came with.

The classifier is a hidden layer with hard-swish and a row for each class of its training. A label may stand for several
classes; its logit is the highest of theirs. The rows' biases are such that other sounds reach :data:`ONCE_AN_HOUR` once
an hour, as ``model_export.sounds.known`` reckons.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleet_protocol.arrays import Array, Floats
from fleet_protocol.errors import BundleError

ONCE_AN_HOUR = 1.5
"""Logit that sounds other than the label's reach once an hour among many of them."""
_ARRAYS = ("known_hidden", "known_hidden_bias", "known_rows", "known_bias", "known_sound")


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
        x = embeddings[:, -len(self.hidden) :] @ self.hidden + self.hidden_bias
        x *= np.clip(x + 3, 0, 6) / 6
        found = np.empty((len(embeddings), len(names)), np.float32)
        for column, name in enumerate(names):
            classes = np.flatnonzero(self.sound == self.names.index(name))
            found[:, column] = (x @ self.rows[:, classes] + self.bias[classes]).max(axis=1)
        return found

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
            raise BundleError(
                f"the sounds known from the start cannot be read ({error}); make the bundle again"
            ) from error
        return known
