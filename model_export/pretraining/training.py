"""Trains a front end's network to tell words apart, so that its embedding serves words that it never heard.

Adam (Kingma & Ba 2015) with a linear warm-up and, over all steps or the last of them, a cosine to zero; cross-entropy,
and for `words` besides the cosine loss with a margin (CosFace: Wang et al. 2018), since a device compares cosines.
`separable` has two more tasks on read speech: the phone of each frame, and which pairs of phones a window holds.
JAX draws and trains, on processors or on an accelerator. A run that was killed goes on from its last checkpoint, on
either.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

from fleet_protocol.errors import TensorError
from fleet_protocol.ground.atomic_files import write_durably
from fleet_protocol.numbers.arrays import Floats
from fleet_protocol.numbers.tensors import pack, unpack
from model_export.errors import ExportError
from model_export.pretraining.batches import Batches, Phones, Sounds
from model_export.pretraining.network import DESIGNS, Design, Weights, frames, initial

_PROGRESS_S = 5.0
_TOGETHER = 8  # steps that are handed to JAX at once
_SHARPNESS, _MARGIN = 24.0, 0.15  # of the cosine loss: s and m of Wang et al. 2018
_MEMORY, _SQUARES_MEMORY = 0.9, 0.999  # of Adam
_LONGEST = 5.0  # gradient; a longer one is shortened to it
_RARE = -4.0  # bias of a pair of phones before the first step: most windows lack most pairs
_WEIGHT_DECAY = 1e-3  # share of the learning rate by which kernels shrink in a step (Loshchilov & Hutter 2019)


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
    phones: float = 0.0  # weight of the loss of frames' phones, where read speech has them marked
    pairs: float = 0.0  # weight of the loss of pairs of phones
    seed: int = 0  # of the initial weights and of all draws
    checkpoint_s: float = 60.0  # seconds between checkpoints

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


class State(NamedTuple):
    """All that a step changes."""

    # of the network, the classifier ``words/..``, the cosine loss, ``cosine/..``, and phones and pairs
    weights: Weights
    moving: Weights  # moving means and variances of the network's normalisation
    means: Weights  # moving means of the weights' gradients
    squares: Weights  # the same of their squares


def begin(design: Design, classes: int, cosine: bool, key: jax.Array, phones: tuple[int, int] = (0, 0)) -> State:
    """Return the state before the first step; ``phones``: number of phones, if they are learned, and of their pairs."""
    key, *drawn = random.split(key, 6)
    weights, moving = initial(design, key)
    numbers = design.embedding
    shapes = {"words/kernel": (numbers, classes)}
    if cosine:
        shapes |= {"cosine/kernel": (numbers, numbers), "cosine/directions": (classes, numbers)}
    if phones[0]:
        shapes |= {"phones/kernel": (numbers, phones[0]), "pairs/kernel": (numbers, phones[1])}
        weights |= {"phones/bias": jnp.zeros(phones[0]), "pairs/bias": jnp.full(phones[1], _RARE)}
    for own, (name, shape) in zip(drawn, shapes.items(), strict=False):
        weights[name] = random.normal(own, shape) / math.sqrt(numbers)
    weights["words/bias"] = jnp.zeros(classes)
    means, squares = ({name: jnp.zeros_like(weight) for name, weight in weights.items()} for _ in range(2))
    return State(weights, moving, means, squares)


def losses(weights: Weights, embeddings: jax.Array, classes: jax.Array) -> dict[str, jax.Array]:
    """Return a batch's mean loss in each task of the weights: float32 [clips, embedding], classes int32 [clips]."""
    found = {"words": _cross_entropy(_logits(weights, "words", embeddings), classes).mean()}
    if "cosine/kernel" in weights:
        # Centred and mapped linearly, which a device's whitening does after the training.
        mapped = (embeddings - lax.stop_gradient(embeddings.mean(0))) @ weights["cosine/kernel"]
        cosines = _directions(mapped) @ _directions(weights["cosine/directions"]).T
        margins = _MARGIN * jax.nn.one_hot(classes, cosines.shape[1])
        found["cosine"] = _cross_entropy(_SHARPNESS * (cosines - margins), classes).mean()
    return found


def _phone_losses(weights: Weights, found: jax.Array, said: Phones, places: list[int]) -> dict[str, jax.Array]:
    """Return the mean loss of the phone of each frame, and that of pairs of phones for each pair that is said.

    ``found``: float32 [clips, frames, embedding]; ``places``: which frame of a window each is.
    """
    phones = said.frames[:, jnp.asarray(places)]
    unsure = _cross_entropy(_logits(weights, "phones", found), jnp.maximum(phones, 0))
    scores = _logits(weights, "pairs", found.mean(1))
    wrong = jax.nn.softplus(jnp.where(said.pairs, -scores, scores))
    return {
        "phones": jnp.where(phones >= 0, unsure, 0.0).sum() / jnp.maximum((phones >= 0).sum(), 1),
        "pairs": jnp.where(said.known, wrong, 0.0).sum() / jnp.maximum(said.pairs.sum(), 1),
    }


def _logits(weights: Weights, task: str, x: jax.Array) -> jax.Array:
    return x @ weights[f"{task}/kernel"] + weights[f"{task}/bias"]


def _cross_entropy(logits: jax.Array, classes: jax.Array) -> jax.Array:
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), classes[..., None], -1)[..., 0]


def _directions(vectors: jax.Array) -> jax.Array:
    return vectors * lax.rsqrt((vectors**2).sum(1, keepdims=True) + 1e-12)


def adam(state: State, gradients: Weights, step: jax.Array, rate: jax.Array) -> State:
    """Return the state after a step with a learning rate; ``step`` counts from 0."""
    length = jnp.sqrt(sum((gradient**2).sum() for gradient in gradients.values()))
    shortened = jnp.minimum(1.0, _LONGEST / (length + 1e-9))
    unbiased = jnp.sqrt(1 - _SQUARES_MEMORY ** (step + 1.0)) / (1 - _MEMORY ** (step + 1.0))
    weights, means, squares = {}, {}, {}
    for name, weight in state.weights.items():
        gradient = shortened * gradients[name]
        means[name] = _MEMORY * state.means[name] + (1 - _MEMORY) * gradient
        squares[name] = _SQUARES_MEMORY * state.squares[name] + (1 - _SQUARES_MEMORY) * gradient**2
        moved = weight - rate * unbiased * means[name] / (jnp.sqrt(squares[name]) + 1e-8)
        weights[name] = moved - rate * _WEIGHT_DECAY * weight if name.endswith("/kernel") else moved
    return State(weights, state.moving, means, squares)


class Training:
    """A network, its classifier, its optimiser and the number of steps that are done."""

    def __init__(self, options: Options, batches: Batches, checkpoint: Path, corpus_digest: str) -> None:
        """Begin anew, or where the checkpoint is, a file; ``corpus_digest``: of all that the batches are drawn from."""
        self.options = options
        self.step = 0
        self.batches = batches
        self.design = DESIGNS[options.size]
        self._checkpoint = checkpoint
        self.identity = _identity(options, batches, corpus_digest)
        phones = batches.phones if options.phones else (0, 0)
        self.state = begin(self.design, batches.classes, options.cosine > 0, random.key(options.seed), phones)
        # An accelerator multiplies half as wide numbers many times as fast; weights and sums stay float32.
        self._precision = jnp.float32 if jax.default_backend() == "cpu" else jnp.bfloat16
        self._steps = jax.jit(self._take_steps, donate_argnums=0)
        if checkpoint.exists():
            self._load()

    def run(self, report: Callable[[Progress], None]) -> None:
        """Train to the end; write a checkpoint every now and then, and at the end."""
        steps, sounds = self.options.steps, self.batches.sounds
        rates = jnp.asarray([self.options.rate(step) for step in range(steps)], jnp.float32)
        saved = reported = time.monotonic()
        loss, begun = 0.0, self.step
        while self.step < steps:
            last = min(self.step + _TOGETHER, steps)
            self.state, added = self._steps(self.state, sounds, rates, self.step, last)
            loss += float(added)  # waits until they are done
            self.step = last
            now = time.monotonic()
            if now - reported >= _PROGRESS_S or last == steps:
                done = last - begun
                report(Progress(last, steps, loss / done, (now - reported) / done * (steps - last)))
                loss, begun, reported = 0.0, last, now
            if now - saved >= self.options.checkpoint_s or last == steps:
                self._save()
                saved = now

    def head(self) -> dict[str, Floats]:
        """Return the classifier of words and, last, noise: kernel [embedding, words + 1], bias, and training shares."""
        kept, weights = np.array(self.batches.head), self.state.weights
        kernel, bias = (np.asarray(weights[f"words/{part}"])[..., kept] for part in ("kernel", "bias"))
        return {"head/kernel": kernel, "head/bias": bias, "head/shares": self.batches.forward_shares}

    def _take_steps(
        self, state: State, sounds: Sounds, rates: jax.Array, first: int, last: int
    ) -> tuple[State, jax.Array]:
        """Take the steps from ``first`` to before ``last``; return the state after them, and their losses' sum."""

        def take(step: jax.Array, carried: tuple[State, jax.Array]) -> tuple[State, jax.Array]:
            state, total = carried
            measured = jax.value_and_grad(self._loss, has_aux=True)
            (loss, moving), gradients = measured(state.weights, state.moving, *self.batches.draw(sounds, step))
            return adam(state._replace(moving=moving), gradients, step, rates[step]), total + loss

        taken: tuple[State, jax.Array] = lax.fori_loop(first, last, take, (state, jnp.zeros(())))
        return taken

    def _loss(
        self, weights: Weights, moving: Weights, pictures: jax.Array, classes: jax.Array, phones: Phones | None = None
    ) -> tuple[jax.Array, Weights]:
        """Return a batch's loss, and the new moving statistics."""
        seen, moving = frames(self.design, weights, moving, pictures, self._precision)
        found = losses(weights, seen.mean(1), classes)
        if phones and self.options.phones:
            found |= _phone_losses(weights, seen, phones, self.design.places)
        options = vars(self.options)
        return sum((options[name] * found[name] for name in found if name != "words"), start=found["words"]), moving

    def _save(self) -> None:
        parts = self.state._asdict().items()
        arrays = {f"{part}/{name}": np.asarray(array) for part, named in parts for name, array in named.items()}
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
        parts = self.state._asdict().items()
        self.state = State(*({name: jnp.asarray(arrays[f"{part}/{name}"]) for name in named} for part, named in parts))
        self.step = int(document["step"])

    def _goes_on_from(self, checkpoint: dict[str, Any]) -> bool:
        """Return whether it is of this run, or of one of another length that did the same until then."""
        its = checkpoint.get("run")
        if not isinstance(its, dict) or {**its, "steps": 0, "decay": 0} != {**self.identity, "steps": 0, "decay": 0}:
            return False
        return its == self.identity or checkpoint["step"] <= min(_begin_of_decay(its), _begin_of_decay(self.identity))


def _begin_of_decay(identity: dict[str, Any]) -> int:
    """Return after how many steps the learning rate of a run begins to fall."""
    return int(identity["steps"] - (identity["decay"] or identity["steps"]))


def _identity(options: Options, batches: Batches, corpus_digest: str) -> dict[str, Any]:
    """Return all that decides what a run comes to."""
    chosen = dataclasses.asdict(options)
    del chosen["checkpoint_s"]
    variants = {name: list(v) if isinstance(v, tuple) else v for name, v in vars(batches.augmentation).items()}
    return {**chosen, **variants, "corpus": corpus_digest, "words": list(batches.corpus.vocabulary)}


def _difference(its: Any, ours: dict[str, Any]) -> str:  # noqa: ANN401
    if not isinstance(its, dict):
        return "it does not say of which"
    names = [name for name in ours if its.get(name) != ours[name]]
    return ", ".join(f"{name} {its.get(name)!r}, not {ours[name]!r}" for name in names)
