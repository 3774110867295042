"""Trains a front end's network to tell words apart, so that its embedding serves words that it never heard.

Adam (Kingma & Ba 2015) with a linear warm-up and, over all steps or the last of them, a cosine to zero; cross-entropy,
and for `words` besides the cosine loss with a margin (CosFace: Wang et al. 2018), since a device compares cosines.
A run that was killed goes on from its last checkpoint.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from fleet_protocol.arrays import Floats
from fleet_protocol.atomic_files import write_durably
from fleet_protocol.errors import TensorError
from fleet_protocol.tensors import pack, unpack
from model_export.errors import ExportError
from model_export.layers.operators import Tensor
from model_export.pretraining.batches import Batches
from model_export.pretraining.network import DESIGNS, build

_PROGRESS_S = 5.0
_SHARPNESS, _MARGIN = 24.0, 0.15  # of the cosine loss: s and m of Wang et al. 2018


@dataclass(frozen=True)
class Options:
    """How a network is trained."""

    size: str = "base"  # name of the network's design
    steps: int = 12_800  # number of steps
    batch: int = 128  # clips of a step
    learning_rate: float = 2.5e-3  # the highest
    warm_up: int = 150  # steps over which it rises
    decay: int = 0  # last steps, over which it falls; 0: all
    backwards: float = 1 / 3  # share of the words that are played backwards
    cosine: float = 0.0  # weight of the cosine loss beside the cross-entropy
    seed: int = 0  # of the initial weights and of all draws
    checkpoint_s: float = 60.0  # seconds between checkpoints
    threads: int = 2  # threads that work at the same time, at least 1

    def rate(self, step: int) -> float:
        """Return the learning rate of a step."""
        rising = min(1.0, (step + 1) / max(1, self.warm_up))
        decay = self.decay or self.steps
        fallen = max(0, step - (self.steps - decay))
        return self.learning_rate * rising * 0.5 * (1 + math.cos(math.pi * fallen / decay))


@dataclass(frozen=True)
class Progress:
    """How far a training is."""

    step: int  # steps that are done
    steps: int  # steps in all
    loss: float  # mean loss since the last report
    remaining_s: float  # seconds that are left at the present pace


class Training:
    """A network, its classifier, its optimiser and the number of steps that are done."""

    def __init__(self, options: Options, batches: Batches, checkpoint: Path, corpus_digest: str) -> None:
        """Build everything anew, or as the checkpoint has it.

        Args:
            checkpoint: file from which a run goes on, and into which it writes its state.
            corpus_digest: of the corpus that the batches are drawn from.
        """
        self.options = options
        self.step = 0
        self.batches = batches
        self._checkpoint = checkpoint
        self.identity = _identity(options, batches, corpus_digest)
        keras.utils.set_random_seed(options.seed)
        self.network = build(DESIGNS[options.size])
        words = keras.layers.Dense(batches.classes, name="words")(self.network.output)
        self.classifier = keras.Model(self.network.input, [words, self.network.output])
        self._cosine = _Cosine(batches.classes) if options.cosine else None
        if self._cosine:
            self._cosine.build(self.network.output.shape)
        self._optimiser = keras.optimizers.Adam(options.learning_rate)
        self._optimiser.build(self._trained)
        self._train_step = tf.function(self._take_step, autograph=False)
        if checkpoint.exists():
            self._load()

    def run(self, report: Callable[[Progress], None]) -> None:
        """Train to the end; write a checkpoint every now and then, and at the end."""
        saved = reported = time.monotonic()
        losses: list[Tensor] = []
        with ThreadPoolExecutor(1) as ahead:
            upcoming = ahead.submit(self.batches.draw, self.step)
            while self.step < self.options.steps:
                x, classes = upcoming.result()
                upcoming = ahead.submit(self.batches.draw, self.step + 1)
                losses.append(self._train_step(x, classes, np.float32(self.options.rate(self.step))))
                self.step += 1
                now = time.monotonic()
                if now - reported >= _PROGRESS_S or self.step == self.options.steps:
                    pace = (now - reported) / len(losses)
                    loss = float(np.mean([float(loss) for loss in losses]))
                    report(Progress(self.step, self.options.steps, loss, pace * (self.options.steps - self.step)))
                    reported, losses = now, []
                if now - saved >= self.options.checkpoint_s or self.step == self.options.steps:
                    self._save()
                    saved = now

    def head(self) -> dict[str, Floats]:
        """Return the classifier of words and, last, noise: kernel [embedding, words + 1], bias, and training shares."""
        kernel, bias = (np.asarray(weight) for weight in self.classifier.get_layer("words").get_weights())
        kept = self.batches.head
        return {"head/kernel": kernel[:, kept], "head/bias": bias[kept], "head/shares": self.batches.forward_shares}

    def _take_step(self, x: Tensor, classes: Tensor, rate: Tensor) -> Tensor:
        self._optimiser.learning_rate.assign(rate)
        with tf.GradientTape() as tape:
            logits, embeddings = self.classifier(x, training=True)
            loss = _cross_entropy(classes, logits)
            if self._cosine:
                cosines = self._cosine(embeddings, training=True)
                margins = _MARGIN * tf.one_hot(classes, self.batches.classes)
                loss += self.options.cosine * _cross_entropy(classes, _SHARPNESS * (cosines - margins))
        self._optimiser.apply_gradients(zip(tape.gradient(loss, self._trained), self._trained, strict=True))
        return loss

    @property
    def _trained(self) -> list[keras.Variable]:
        return [*self.classifier.trainable_variables, *(self._cosine.trainable_variables if self._cosine else ())]

    def _state(self) -> dict[str, Any]:
        """Name every variable of classifier and optimiser."""
        variables = (
            *self.classifier.weights,
            *(self._cosine.weights if self._cosine else ()),
            *self._optimiser.variables,
        )
        return {f"{index:03d}": variable for index, variable in enumerate(variables)}

    def _save(self) -> None:
        arrays = {name: np.asarray(variable.value) for name, variable in self._state().items()}
        arrays = {name: array.astype(np.int64) if array.dtype.kind == "i" else array for name, array in arrays.items()}
        write_durably(self._checkpoint, pack(arrays, {"run": self.identity, "step": self.step}), 0o644)

    def _load(self) -> None:
        try:
            arrays, document = unpack(self._checkpoint.read_bytes())
        except TensorError as error:
            raise ExportError(
                f"the checkpoint {self._checkpoint} is damaged ({error}); remove it to begin anew"
            ) from error
        if not self._goes_on_from(document):
            raise ExportError(
                f"the checkpoint {self._checkpoint} is of another run "
                f"({_difference(document.get('run'), self.identity)}); "
                "repeat that run's options, or remove the file to begin anew"
            )
        for name, variable in self._state().items():
            variable.assign(arrays[name].reshape(variable.shape))  # no file keeps an array without axes
        self.step = int(document["step"])

    def _goes_on_from(self, checkpoint: dict[str, Any]) -> bool:
        """Return whether it is of this run, or of one of another length that did the same until then."""
        its = checkpoint.get("run")
        if not isinstance(its, dict) or {**its, "steps": 0, "decay": 0} != {**self.identity, "steps": 0, "decay": 0}:
            return False
        return its == self.identity or checkpoint["step"] <= min(_begin_of_decay(its), _begin_of_decay(self.identity))


def _cross_entropy(classes: Tensor, logits: Tensor) -> Tensor:
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(classes, logits))


class _Cosine(keras.layers.Layer):  # type: ignore[misc]
    """Maps embeddings [n, embedding] to their cosines with each class' direction, [n, classes].

    The embeddings are centred and mapped linearly first, which a device's whitening does after the training.
    """

    def __init__(self, classes: int) -> None:
        super().__init__(name="cosine")
        self._classes = classes

    def build(self, shape: tuple[int | None, int]) -> None:
        self._centred = keras.layers.BatchNormalization(momentum=0.98, center=False, scale=False)
        self._centred.build(shape)
        self._mapped = keras.layers.Dense(shape[-1], use_bias=False, kernel_initializer="orthogonal")
        self._mapped.build(shape)
        self._directions = self.add_weight(shape=(self._classes, shape[-1]), initializer="random_normal")

    def call(self, embeddings: Tensor, training: bool = False) -> Tensor:
        mapped = tf.math.l2_normalize(self._mapped(self._centred(embeddings, training=training)), axis=1)
        return tf.matmul(mapped, tf.math.l2_normalize(self._directions, axis=1), transpose_b=True)


def _begin_of_decay(identity: dict[str, Any]) -> int:
    """Return after how many steps the learning rate of a run begins to fall."""
    return int(identity["steps"] - (identity["decay"] or identity["steps"]))


def _identity(options: Options, batches: Batches, corpus_digest: str) -> dict[str, Any]:
    """Return all that decides what a run comes to."""
    chosen = dataclasses.asdict(options)
    for name in ("checkpoint_s", "threads"):
        del chosen[name]
    variants = {name: list(v) if isinstance(v, tuple) else v for name, v in vars(batches.augmentation).items()}
    return {
        **chosen,
        **variants,
        "power": batches.power,
        "corpus": corpus_digest,
        "words": list(batches.corpus.vocabulary),
    }


def _difference(its: Any, ours: dict[str, Any]) -> str:  # noqa: ANN401
    if not isinstance(its, dict):
        return "it does not say of which"
    names = [name for name in ours if its.get(name) != ours[name]]
    return ", ".join(f"{name} {its.get(name)!r}, not {ours[name]!r}" for name in names)


def use_threads(threads: int) -> None:
    """Limit TensorFlow to these threads less the one that draws batches, and make its results repeatable."""
    try:
        tf.config.threading.set_intra_op_parallelism_threads(max(1, threads - 1))
        tf.config.threading.set_inter_op_parallelism_threads(1)
    except RuntimeError:  # it has begun to work already, with as many threads as it likes
        pass
    tf.config.experimental.enable_op_determinism()


def embed(network: keras.Model, pictures: Floats) -> Floats:
    """Return the embeddings of normalised pictures, float32 [clips, embedding]."""
    parts = [np.asarray(network(pictures[i : i + 512], training=False)) for i in range(0, len(pictures), 512)]
    return np.concatenate([np.zeros((0, network.output_shape[-1]), np.float32), *parts])
