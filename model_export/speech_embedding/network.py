"""The network of the speech embedding in TensorFlow: whole clips at once, and part by part as a TFLite graph.

No convolution pads time. So the new columns of a layer need its new inputs and the last two that came before them:
these are the state. Eight new frames make one new column of the last layer, because the layers that pool halve time
three times. The graph takes any number of parts of eight frames at once, and prepares its weights once for all.

Behind every convolution but the last stands f(x) = max(x, x/5, -0.4), published as LEAKY_RELU and MAXIMUM. On ARMv7
tflite-runtime takes 65 instructions for each number of MAXIMUM in float32, and of LEAKY_RELU in int8. A
:class:`Rectifier` computes f from operators that take 4 and 24 together. f never falls: so pooling comes first, and f
has fewer numbers to do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from edge_client.features.speech_embedding import BANDS, PART_FRAMES
from fleet_protocol.arrays import Floats
from model_export.bundle import convert_module
from model_export.layers.operators import Tensor
from model_export.speech_embedding.package import Convolution

SIGNATURE = "step"
_POOLS = {2: (2, 2), 6: (1, 2), 10: (2, 2), 14: (1, 2), 18: (2, 2)}
"""Over how many frames and bands the outputs of a convolution are pooled, by its number."""
_LATE = 4
"""Frames of the first part of a clip that no column hears: 10 parts have 80 frames, and a column hears 76."""
_CLIPS = 64  # that go through the network at a time

State = dict[str, Tensor]


@dataclass(frozen=True)
class Rectifier:
    """A way to compute f(x) from r = max(x + 2, 0), which the convolution before makes by its bias and a fused ReLU."""

    form: Callable[[Tensor], Tensor]  # a function of r
    scale: float  # of f, divided by the function; the next layer's weights make up for it


# They add negative numbers, because SUB has no fast code.
_FLOAT32 = Rectifier(lambda r: tf.nn.leaky_relu(r + -2.0, 0.2), 1.0)
_INT8 = Rectifier(lambda r: (0.25 * r + -0.5) + tf.nn.relu(r + -2.0), 0.8)


class SpeechNetwork(tf.Module):  # type: ignore[misc]
    """The network, with the weights of the package."""

    def __init__(self, convolutions: Sequence[Convolution], rectifier: Rectifier = _FLOAT32) -> None:
        super().__init__()
        self._form = rectifier.form
        self._layers = [
            (tf.constant((rectifier.scale if number else 1.0) * layer.kernel), tf.constant(layer.bias))
            for number, layer in enumerate(convolutions)
        ]

    def columns(self, parts: Floats) -> Floats:
        """Return the columns of whole clips: float32 [clips, 9 + columns, 8, 32] -> [clips, columns, 96]."""
        found = []
        for start in range(0, len(parts), _CLIPS):
            frames = parts[start : start + _CLIPS].reshape(-1, parts.shape[1] * PART_FRAMES, BANDS)
            found.append(self._whole(tf.constant(frames[:, _LATE:])).numpy())
        return np.concatenate(found)

    @tf.function(autograph=False, reduce_retracing=True)  # type: ignore[untyped-decorator]
    def _whole(self, frames: Tensor) -> Tensor:
        x, _ = self._run(frames, None)
        return x

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def step(self, parts: Tensor, **state: Tensor) -> State:
        """Return the columns of parts, and the next state."""
        columns, following = self._run(tf.reshape(parts, (1, -1, BANDS)), state)
        return {"columns": columns[0], **following}

    def _run(self, frames: Tensor, state: State | None) -> tuple[Tensor, State]:
        """Return [clips, columns, 96] of [clips, frames, 32]; before them stands a state, or nothing."""
        x, following = tf.pad(tf.expand_dims(frames, 3), [[0, 0], [0, 0], [1, 1], [0, 0]]), {}
        for number, (kernel, bias) in enumerate(self._layers):
            if state is not None and kernel.shape[0] > 1:
                name = _state_name(number)
                x = tf.concat([state[name], x], axis=1)
                following[name] = x[:, -(kernel.shape[0] - 1) :]
            x = tf.nn.conv2d(x, kernel, 1, "SAME" if kernel.shape[0] == 1 else "VALID") + bias
            if number == len(self._layers) - 1:
                break
            x = tf.nn.relu(x + 2.0)
            if number in _POOLS:
                x = tf.nn.max_pool2d(x, _POOLS[number], _POOLS[number], "VALID")
            x = self._form(x)
        return tf.squeeze(x, 2), following

    def specifications(self) -> dict[str, tf.TensorSpec]:
        """Return the inputs of a step, by name: ``parts``, and the state."""
        found = {"parts": tf.TensorSpec((None, PART_FRAMES, BANDS), tf.float32, "parts")}
        for number, ((kernel, _), (_, bands)) in enumerate(zip(self._layers, self._sizes(), strict=True)):
            if kernel.shape[0] > 1:
                name = _state_name(number)
                margins = 0 if number else 2  # of the input, which alone is padded before the state stands before it
                shape = (1, kernel.shape[0] - 1, bands + margins, kernel.shape[2])
                found[name] = tf.TensorSpec(shape, tf.float32, name)
        return found

    def signatures(self) -> dict[str, Any]:
        """Return the function that a graph of the network has."""
        return {SIGNATURE: self.step.get_concrete_function(**self.specifications())}

    def multiply_adds_of_part(self) -> int:
        """Return the multiply-adds that a part costs."""
        sizes = zip(self._layers, self._sizes(), strict=True)
        return sum(frames * bands * math.prod(kernel.shape) for (kernel, _), (frames, bands) in sizes)

    def _sizes(self) -> Iterator[tuple[int, int]]:
        """Yield the frames that each layer computes for a part, and its bands, before it pools."""
        frames, bands = PART_FRAMES, BANDS
        for number in range(len(self._layers)):
            yield frames, bands
            over = _POOLS.get(number, (1, 1))
            frames, bands = frames // over[0], bands // over[1]

    def steps(self, clips: Iterable[Floats]) -> Iterator[dict[str, Floats]]:
        """Yield the inputs of every step through clips, each [parts, 8, 32]."""
        specifications = self.specifications()
        for clip in clips:
            state = {name: np.zeros(spec.shape, np.float32) for name, spec in specifications.items() if name != "parts"}
            for part in clip:
                inputs = {"parts": part[None], **state}
                yield inputs
                state = {name: array.numpy() for name, array in self.step(**inputs).items() if name != "columns"}


def _state_name(number: int) -> str:
    return f"state_{number:02}"


def float32_graph(convolutions: Sequence[Convolution]) -> bytes:
    """Convert the network to a streaming graph, float32.

    Raises OperatorError: it needs an operator that a runtime lacks.
    """
    network = SpeechNetwork(convolutions)
    return convert_module(network, network.signatures())


def int8_graph(convolutions: Sequence[Convolution], clips: Floats) -> bytes:
    """Convert the network to a streaming graph with int8 weights and activations, float32 at its ends.

    Args:
        clips: mel features from which the activations' ranges are measured, float32 [clips, parts, 8, 32].

    Raises OperatorError: it needs an operator that a runtime lacks.
    """
    network = SpeechNetwork(convolutions, _INT8)
    return convert_module(network, network.signatures(), calibration=lambda: network.steps(clips))
