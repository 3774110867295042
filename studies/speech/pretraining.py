"""Trains the start of the speech recognition fleets by Keras: its own layers, Adam and TensorFlow's CTC loss.

Run as `python -m studies.speech.pretraining ARCHIVE OUTPUT SETTINGS`, apart from TensorFlow Lite.
First each letter stands at its place in its word: who has cut the words knows where they are. From nothing, CTC says
nothing but blanks for long.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from fleet_protocol.bundle.bundle_file import Bundle, unpack_bundle, write_bundle
from fleet_protocol.ground.atomic_files import write_durably
from fleet_protocol.numbers.tensors import Arrays
from model_export.bundle import build_bundle, build_network
from model_export.specification import Specification
from studies.speech.ctc import BLANK, indices
from studies.speech.data import Speakers, Utterances, aligned, disguised, joined, phrases, varied
from studies.speech.network import specification
from studies.speech.start import Pretraining
from studies.speech.training import CHARACTERS

Tensor = Any
_BATCH, _LONGEST = 16, 24  # utterances of one of Adam's steps; letters of a phrase


class Trainer:
    """A network of Keras's layers, and the two losses that it is trained by."""

    def __init__(self, bundle: Bundle, built: Specification) -> None:
        """Take the weights of the bundle that was built."""
        self._manifest = manifest = bundle.manifest
        self._normalisation = built.normalisation
        self._model = build_network(built, stock=True)
        given = zip(self._names(), self._model.get_weights(), strict=True)
        self._model.set_weights([bundle.weights[name].reshape(array.shape) for name, array in given])
        adam, momentum = keras.optimizers.Adam(), keras.optimizers.SGD(momentum=0.9)
        self._steps = {
            "aligned": (adam, self._compiled(_placed, adam), _BATCH),
            "ctc": (adam, self._compiled(_ctc, adam), _BATCH),
            "settled": (momentum, self._compiled(_ctc, momentum), manifest.batch),
        }

    def _names(self) -> list[str]:
        return [name for layer in self._manifest.layers for name in layer.weights]

    @property
    def weights(self) -> Arrays:
        """Weights by the bundle's names and shapes."""
        shapes, given = self._manifest.weight_shapes, self._model.get_weights()
        return {name: array.reshape(shapes[name]) for name, array in zip(self._names(), given, strict=True)}

    def _compiled(self, loss: Callable[..., Tensor], optimiser: keras.Optimizer) -> Callable[..., Tensor]:
        optimiser.build(self._model.trainable_variables)

        def step(x: Tensor, *wanted: Tensor) -> Tensor:
            with tf.GradientTape() as tape:
                value = loss(self._model(x, training=True), *wanted)
            variables = self._model.trainable_variables
            slopes = tape.gradient(value, [variable.value for variable in variables])
            optimiser.apply_gradients(zip(slopes, variables, strict=True))
            return value

        compiled: Callable[..., Tensor] = tf.function(step)
        return compiled

    def train(self, utterances: Utterances, how: str, rate: float, rng: np.random.Generator) -> float:
        """Pass once over utterances; those of a last, smaller batch are left out. Return the mean loss.

        Args:
            how: ``aligned``, ``ctc`` or ``settled``.
        """
        x = ((utterances.x - self._normalisation.mean) / self._normalisation.std).astype(np.float32)
        if how == "aligned":
            wanted = [aligned(utterances, self._model.output_shape[1], CHARACTERS)]
        else:
            texts = [indices(text, CHARACTERS) for text in utterances.texts]
            filled = np.stack([np.pad(text, (0, _LONGEST - len(text))) for text in texts])
            wanted = [filled, np.array([len(text) for text in texts])]
        optimiser, step, batch = self._steps[how]
        optimiser.learning_rate.assign(rate)
        order = rng.permutation(len(x))[: len(x) // batch * batch].reshape(-1, batch)
        return float(np.mean([step(x[rows], *(part[rows].astype(np.int32) for part in wanted)) for rows in order]))


def _placed(logits: Tensor, symbols: Tensor) -> Tensor:
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=symbols, logits=logits)
    return tf.reduce_mean(tf.reduce_sum(losses, axis=1))


def _ctc(logits: Tensor, texts: Tensor, lengths: Tensor) -> Tensor:
    steps = tf.fill([tf.shape(logits)[0]], logits.shape[1])
    losses = tf.nn.ctc_loss(texts, logits, lengths, steps, logits_time_major=False, blank_index=BLANK)
    return tf.reduce_mean(losses)


def pretrained(trainer: Trainer, speakers: Speakers, how: Pretraining) -> tuple[Arrays, list[float]]:
    """Return a network's weights after pretraining, and the mean loss of every pass."""
    rng = np.random.default_rng(7)
    words = speakers.words_of(speakers.pretrained(how.speakers))
    plan = [("aligned", how.rate)] * how.aligned
    plan += [("ctc", how.rate * (how.passes - number) / how.passes) for number in range(how.passes)]
    plan += [("settled", how.settled_rate)] * how.settled
    losses = []
    for kind, rate in plan:
        heard = disguised(joined([phrases(varied(speaker, rng), how.each, rng) for speaker in words]), rng)
        losses.append(trainer.train(heard, kind, rate, rng))
    return trainer.weights, losses


def main(archive: Path, output: Path, settings: str) -> None:
    """Write the bundle with the start's weights."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.experimental.enable_op_determinism()
    keras.utils.set_random_seed(0)
    how = Pretraining(**json.loads(settings))
    built = specification(how.width, how.batch)
    untrained = unpack_bundle(build_bundle(built), built.architecture)
    weights, losses = pretrained(Trainer(untrained, built), Speakers(archive), how)
    write_durably(output, write_bundle(untrained.manifest, untrained.graph, weights), 0o644)
    print(" ".join(f"{loss:.2f}" for loss in losses))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
