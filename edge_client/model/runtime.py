"""A bundle's graph in a TensorFlow Lite runtime: train, predict, gradients with respect to the input, weights.

One loss against soft, signed targets serves every method of the fleet; docs/models.md defines it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np

from edge_client.errors import ModelError
from edge_client.model.interpreter import open_graph
from fleet_protocol.bundle.bundle_file import Bundle, Manifest, read_bundle
from fleet_protocol.numbers.arrays import Array, Floats
from fleet_protocol.numbers.tensors import Arrays


class ModelRuntime:
    """One opened model, of a bundle's ``manifest``. Not for several threads at once, except :meth:`predict`.

    Every ``x`` is NORMALISED features, float32 [n, frames, coefficients]; ``targets`` are float32 [n, capacity],
    ``mask`` float32 [capacity] of ones (class is on) and zeros. Wrong shapes, and values that are not finite, raise
    ModelError.
    """

    predict_rows = 64
    """Rows of one prediction: so many that a call's overhead vanishes, so few that a Pi's cache holds them."""

    def __init__(self, bundle: Bundle, threads: int = 1) -> None:
        """Load a bundle that was read before; see :meth:`open` for the errors."""
        self.manifest: Manifest = bundle.manifest
        self._mean = np.asarray(self.manifest.mean, np.float32)
        self._std = np.asarray(self.manifest.std, np.float32)
        self._input_shape = self.manifest.input_shape
        self._predicting = threading.Lock()
        self._good_mask: tuple[tuple[int, ...], bytes] | None = None
        self._signatures = open_graph(bundle.graph, threads)
        targets = self._signatures["train"].get_input_details().get("targets", {"shape": ()})
        if (shape := tuple(targets["shape"][1:])) != self.output_shape:
            raise ModelError(
                f"the graph of {self.manifest.architecture} gives outputs of shape {shape} for a clip; this program "
                f"takes {self.output_shape}; take a bundle that was made by `auricle-export build`"
            )
        self.set_weights(bundle.weights)

    @classmethod
    def open(cls, path: Path, threads: int = 1) -> ModelRuntime:
        """Open a bundle file. Raises BundleError if it is missing or damaged, ModelError if no runtime takes it."""
        return cls(read_bundle(path), threads)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of one clip's targets and probabilities."""
        return (self.manifest.capacity,)

    def normalise(self, features: Floats) -> Floats:
        """Scale features [n, frames, coefficients] as the model wants them."""
        return np.asarray((features - self._mean) / self._std, np.float32)

    def denormalise(self, x: Floats) -> Floats:
        """Undo :meth:`normalise`."""
        return np.asarray(x * self._std + self._mean, np.float32)

    def train_step(
        self,
        x: Floats,
        targets: Floats,
        mask: Floats,
        *,
        learning_rate: float,
        momentum: float = 0.9,
        temperature: float = 1.0,
        proximal: float = 0.0,
    ) -> float:
        """Take one step of momentum SGD on 1 to ``manifest.batch`` rows; return the mean loss over them.

        Raises ModelError, also for more rows.
        """
        x, targets, mask = self._checked(x, mask, targets)
        batch, rows = self.manifest.batch, len(x)
        if not 1 <= rows <= batch:
            raise ModelError(f"a training step takes 1 to {batch} rows, not {rows}; pass the rows in parts")
        if rows < batch:  # the graph's mean is over the batch
            x, targets = _fill(x, batch), _fill(targets * np.float32(batch / rows), batch)
        settings = {"learning_rate": learning_rate, "momentum": momentum, "proximal": proximal}
        scalars = {name: _scalar(name, value) for name, value in settings.items()}
        result = self._signatures["train"](
            x=x, targets=targets, mask=mask, temperature=_temperature(temperature), **scalars
        )
        return float(result["loss"])

    def predict(self, x: Floats, mask: Floats, temperature: float = 1.0) -> Floats:
        """Return probabilities, float32 [n, capacity]; what is masked out has 0."""
        x, _, mask = self._checked(x, mask)
        scale, predict = _temperature(temperature), self._signatures["predict"]
        with self._predicting:
            if 1 <= len(x) <= self.predict_rows:
                found: Floats = predict(x=x, mask=mask, temperature=scale)["probabilities"]
                return found
            parts = [
                predict(x=part, mask=mask, temperature=scale)["probabilities"] for part in _parts(x, self.predict_rows)
            ]
        return _joined(parts, *self.output_shape)

    def embed(self, x: Floats) -> Floats:
        """Return the head's input, float32 [n, embedding]."""
        x = self._checked_features(x)
        parts = [self._signatures["embed"](x=part)["embedding"] for part in _parts(x, self.predict_rows)]
        return _joined(parts, *self.output_shape[:-1], self.manifest.embedding)

    def input_gradient(
        self, x: Floats, targets: Floats, mask: Floats, temperature: float = 1.0
    ) -> tuple[Floats, float]:
        """Return the gradient of the SUM of the rows' losses, so each row's own, with respect to x, and that sum."""
        x, targets, mask = self._checked(x, mask, targets)
        batch, scale = self.manifest.batch, _temperature(temperature)
        gradients, loss = [], 0.0
        for part, wanted in zip(_parts(x, batch), _parts(targets, batch), strict=True):
            result = self._signatures["input_gradient"](
                x=_fill(part, batch), targets=_fill(wanted, batch), mask=mask, temperature=scale
            )
            gradients.append(result["gradient"][: len(part)] * np.float32(batch))  # the graph's loss is a mean
            loss += float(result["loss"]) * batch
        return _joined(gradients, *self.manifest.input_shape), loss

    def get_weights(self) -> Arrays:
        """Return a copy of every weight array by name, as the manifest lists them."""
        result = self._signatures["get_weights"]()
        return {name: result[name] for name in self.manifest.weight_shapes}

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Replace the weights, make them the proximal term's anchor, and stop the optimiser's momentum.

        Raises ModelError: naming the array that is missing, unknown, of a wrong shape or not finite.
        """
        shapes = self.manifest.weight_shapes
        for name in sorted(weights.keys() ^ shapes.keys()):
            problem = "is missing" if name in shapes else "is not one of this model's"
            raise ModelError(f"weight array {name!r} {problem}; it has {', '.join(shapes)}")
        arrays = {
            name: _float32(f"weight array {name!r}", weights[name], tuple(shape)) for name, shape in shapes.items()
        }
        self._signatures["set_weights"](**{name.replace("/", "_"): array for name, array in arrays.items()})

    def _checked(self, x: Floats, mask: Floats, targets: Floats | None = None) -> tuple[Floats, Floats, Floats]:
        """Return (x, targets, mask) ready for the graph; targets only where they were given."""
        x = self._checked_features(x)
        mask = np.ascontiguousarray(mask, np.float32)
        if (given := (mask.shape, mask.tobytes())) != self._good_mask:  # mostly the same one
            _float32("mask", mask, (self.manifest.capacity,))
            if not mask.any():
                raise ModelError("the mask switches every class off; give at least one slot to a class first")
            self._good_mask = given
        targets = x if targets is None else _float32("targets", targets, (len(x), *self.output_shape))
        return x, targets, mask

    def _checked_features(self, x: Floats) -> Floats:
        return _float32("x", x, (len(x) if np.ndim(x) else 0, *self._input_shape))


def _float32(what: str, value: Array, shape: tuple[int, ...]) -> Floats:
    """Return a contiguous float32 array after checking its shape and that it is finite."""
    array = np.ascontiguousarray(value, np.float32)
    if array.shape != shape:
        raise ModelError(f"{what} has shape {array.shape}; this model takes {shape}")
    # A sum of squares is finite only where every value is, and is had an order of magnitude cheaper than asking each.
    if not math.isfinite(np.vdot(array, array)) and len(wrong := np.argwhere(~np.isfinite(array))):
        where = tuple(int(i) for i in wrong[0])
        raise ModelError(f"{what} holds {array[where]} at {where}; every value must be finite")
    return array


@lru_cache(maxsize=64)
def _scalar(name: str, value: float) -> Floats:
    if not np.isfinite(value):
        raise ModelError(f"{name} must be finite, not {value}")
    return np.array(value, np.float32)


def _temperature(value: float) -> Floats:
    if not value > 0:
        raise ModelError(f"temperature must be above 0, not {value}")
    return _scalar("temperature", value)


def _parts(rows: Floats, size: int) -> list[Floats]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _fill(rows: Floats, count: int) -> Floats:
    if len(rows) == count:
        return rows
    filled = np.zeros((count, *rows.shape[1:]), np.float32)
    filled[: len(rows)] = rows
    return filled


def _joined(parts: list[Floats], *shape: int) -> Floats:
    return np.concatenate(parts) if parts else np.zeros((0, *shape), np.float32)
