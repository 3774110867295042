"""Training a network that transcribes, on the device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edge_client.learning.sgd import Optimiser
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.bundle_file import Bundle
from fleet_protocol.numbers.arrays import Array, Floats
from studies.speech.ctc import posteriors

CHARACTERS = "abcdefghijklmnopqrstuvwxyz '"


class Transcriber(ModelRuntime):
    """A bundle whose outputs write a character at each step, of four frames: output 0 the blank, 1 the first, ..

    Probabilities and targets are float32 [n, steps, capacity], embeddings [n, steps, embedding].
    """

    def __init__(self, bundle: Bundle, characters: str = CHARACTERS) -> None:
        """Load a bundle of :mod:`studies.speech.network`."""
        self.characters, self.steps = characters, bundle.manifest.input_shape[0] // 4
        self.predict_rows = bundle.manifest.batch  # an utterance's activations are a hundred times a clip's
        super().__init__(bundle)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of one utterance's targets and probabilities."""
        return (self.steps, self.manifest.capacity)


def train_epoch(
    model: Transcriber, x: Floats, transcripts: Sequence[Array], optimiser: Optimiser, rng: np.random.Generator
) -> float:
    """Pass once over the utterances in a random order; return their mean CTC loss (nan where there are none).

    Each batch is predicted first: its targets depend on what the weights of the moment say of it. That costs a third
    more than the step alone. Raises ModelError if a transcript does not fit.

    Args:
        x: normalised features, float32 [rows, frames, coefficients].
        transcripts: symbols of each row, see :func:`studies.speech.ctc.posteriors`.
        optimiser: step size, momentum and FedProx' mu; its temperature is not used.
    """
    mask = np.ones(model.manifest.capacity, np.float32)
    order = rng.permutation(len(x))
    total = 0.0
    for start in range(0, len(order), model.manifest.batch):
        rows = order[start : start + model.manifest.batch]
        targets, losses = posteriors(model.predict(x[rows], mask), [transcripts[row] for row in rows])
        total += float(losses.sum())
        model.train_step(
            x[rows],
            targets,
            mask,
            learning_rate=optimiser.learning_rate,
            momentum=optimiser.momentum,
            proximal=optimiser.proximal,
        )
    return total / len(x) if len(x) else float("nan")
