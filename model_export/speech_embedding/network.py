"""The network of the speech embedding in TensorFlow: whole clips at once, and part by part as a TFLite graph.

No convolution pads time. So the new columns of a layer need its new inputs and the last two that came before them:
these are the state. Eight new frames make one new column of the last layer, because the layers that pool halve time
three times.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from edge_client.features.speech_mel import BANDS, PART_FRAMES
from fleet_protocol.arrays import Floats
from model_export.bundle import Converter, convert
from model_export.operators import Tensor
from model_export.speech_embedding.package import Convolution

SIGNATURE = "step"
_SLOPE, _LEAST = 0.2, -0.4  # of the rectifier
_POOLS = {2: (2, 2), 6: (1, 2), 10: (2, 2), 14: (1, 2), 18: (2, 2)}
"""Over how many frames and bands the outputs of a convolution are pooled, by its number."""
_LATE = 4
"""Frames of the first part of a clip that no column hears: 10 parts have 80 frames, and a column hears 76."""
_CLIPS = 64  # that go through the network at a time

State = dict[str, Tensor]


class SpeechNetwork(tf.Module):  # type: ignore[misc]
    """The network, with the weights of the package."""

    def __init__(self, convolutions: Sequence[Convolution]) -> None:
        super().__init__()
        self._layers = [(tf.constant(layer.kernel), tf.constant(layer.bias)) for layer in convolutions]

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
    def step(self, part: Tensor, **state: Tensor) -> State:
        """Return the column of a part, and the next state."""
        column, following = self._run(part, state)
        return {"column": column[:, 0], **following}

    def _run(self, frames: Tensor, state: State | None) -> tuple[Tensor, State]:
        """Return [clips, columns, 96] of [clips, frames, 32]; before them stands a state, or nothing."""
        x, following = frames[..., None], {}
        for number, (kernel, bias) in enumerate(self._layers):
            if state is not None and kernel.shape[0] > 1:
                name = _state_name(number)
                x = tf.concat([state[name], x], axis=1)
                following[name] = x[:, -(kernel.shape[0] - 1) :]
            bands = kernel.shape[1] // 2
            padding = [[0, 0], [0, 0], [bands, bands], [0, 0]]
            x = tf.nn.conv2d(x, kernel, 1, padding) + bias
            if number < len(self._layers) - 1:
                x = tf.maximum(tf.nn.leaky_relu(x, _SLOPE), _LEAST)
            if number in _POOLS:
                x = tf.nn.max_pool2d(x, _POOLS[number], _POOLS[number], "VALID")
        return x[:, :, 0], following

    def specifications(self) -> dict[str, tf.TensorSpec]:
        """Return the inputs of a step, by name: ``part``, and the state."""
        found = {"part": tf.TensorSpec((1, PART_FRAMES, BANDS), tf.float32, "part")}
        bands = BANDS
        for number, (kernel, _) in enumerate(self._layers):
            if kernel.shape[0] > 1:
                name = _state_name(number)
                found[name] = tf.TensorSpec((1, kernel.shape[0] - 1, bands, kernel.shape[2]), tf.float32, name)
            bands //= _POOLS.get(number, (1, 1))[1]
        return found

    def steps(self, clips: Iterable[Floats]) -> Iterator[dict[str, Floats]]:
        """Yield the inputs of every step through clips, each [parts, 8, 32]."""
        specifications = self.specifications()
        for clip in clips:
            inputs = {name: np.zeros(spec.shape, np.float32) for name, spec in specifications.items()}
            for part in clip:
                inputs["part"] = part[None]
                yield dict(inputs)
                inputs = {name: array.numpy() for name, array in self.step(**inputs).items() if name != "column"}


def _state_name(number: int) -> str:
    return f"state_{number:02}"


@contextlib.contextmanager
def _converter(network: SpeechNetwork) -> Iterator[Converter]:
    with tempfile.TemporaryDirectory() as folder:
        step = network.step.get_concrete_function(**network.specifications())
        tf.saved_model.save(network, folder, signatures={SIGNATURE: step})
        yield tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=[SIGNATURE])


def float32_graph(network: SpeechNetwork) -> bytes:
    """Convert a network to a streaming graph, float32.

    Raises:
        OperatorError: it needs an operator that a runtime lacks.
    """
    with _converter(network) as converter:
        return convert(converter)


def int8_graph(network: SpeechNetwork, clips: Floats) -> bytes:
    """Convert a network to a streaming graph with int8 weights and activations, float32 at its ends.

    Args:
        network: the network.
        clips: mel features from which the activations' ranges are measured, float32 [clips, parts, 8, 32].

    Raises:
        OperatorError: it needs an operator that a runtime lacks.
    """
    with _converter(network) as converter:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: network.steps(clips)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        return convert(converter)
