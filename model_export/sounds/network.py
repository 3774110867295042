"""The network of EfficientAT mn04 in TensorFlow, and as a TFLite graph whose weights are float16 on disk.

Inverted residuals (expand, depthwise convolution, squeeze and excitation, project), then a mean over all places. So
the graph takes clips of any length; the batch and the frames of its input are not fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from fleet_protocol.numbers.arrays import Floats
from model_export import cost
from model_export.bundle import convert_module
from model_export.layers.operators import Tensor
from model_export.sounds.weights import HARD_SWISH_FROM, LAST, STEM, STRIDES, Convolution, Projection

BANDS = 128
SIGNATURE = "embed"
_CLIPS = 64  # that go through the network at a time


class SoundNetwork(tf.Module):  # type: ignore[misc]
    """The network: scaled log-mel features, float32 [clips, frames, 128], to embeddings [clips, numbers]."""

    def __init__(self, convolutions: Mapping[str, Convolution], projection: Projection | None = None) -> None:
        """Take the weights, as ``weights.fold`` makes them; without a projection the embedding are the 384 numbers."""
        super().__init__()
        self._layers = {
            name: (tf.constant(layer.kernel), tf.constant(layer.bias)) for name, layer in convolutions.items()
        }
        self._projection: tuple[Tensor, Tensor] | None = None
        if projection is not None:
            self._projection = tf.constant(projection.matrix), tf.constant(projection.offset)

    def embeddings(self, features: Floats) -> Floats:
        """Return the embeddings of clips, by TensorFlow."""
        embed = tf.function(self.embed, autograph=False)
        parts = [features[start : start + _CLIPS] for start in range(0, len(features), _CLIPS)]
        return np.concatenate([embed(tf.constant(part))["embedding"].numpy() for part in parts])

    def embed(self, log_mel: Tensor) -> dict[str, Tensor]:
        """Return the embeddings under the name that the graph gives them."""
        x = _hard_swish(self._convolved(tf.expand_dims(log_mel, 3), STEM, 2))
        for number, stride in enumerate(STRIDES, 1):
            x = self._residual(
                x, f"features.{number}", stride, _hard_swish if number >= HARD_SWISH_FROM else tf.nn.relu
            )
        embedding = tf.reduce_mean(_hard_swish(self._convolved(x, LAST, 1)), [1, 2])
        if self._projection is not None:
            embedding = embedding @ self._projection[0] + self._projection[1]
        return {"embedding": embedding}

    def _residual(self, x: Tensor, name: str, stride: int, activation: Callable[[Tensor], Tensor]) -> Tensor:
        parts = sorted(part for part in self._layers if part.startswith(f"{name}.block."))
        *inner, last = [part for part in parts if "conc_se_layers" not in part]
        y = x
        for part in inner:
            y = activation(self._convolved(y, part, stride if part == inner[-1] else 1))
        for squeeze in (part for part in parts if part.endswith("fc1")):
            mean = tf.reduce_mean(y, [1, 2], keepdims=True)
            hidden = tf.nn.relu(self._convolved(mean, squeeze, 1))
            y *= tf.sigmoid(self._convolved(hidden, squeeze.replace("fc1", "fc2"), 1))
        y = self._convolved(y, last, 1)
        return x + y if stride == 1 and x.shape[3] == y.shape[3] else y

    def _convolved(self, x: Tensor, name: str, stride: int) -> Tensor:
        """Convolve; the padding is the same on either side, also at stride 2."""
        kernel, bias = self._layers[name]
        sides = kernel.shape[0] // 2
        if stride > 1 and sides:
            x = tf.pad(x, [[0, 0], [sides, sides], [sides, sides], [0, 0]])
        padding = "VALID" if stride > 1 else "SAME"
        if kernel.shape[3] == 1:
            return tf.nn.depthwise_conv2d(x, kernel, [1, stride, stride, 1], padding) + bias
        return tf.nn.conv2d(x, kernel, stride, padding) + bias


def _hard_swish(x: Tensor) -> Tensor:
    return x * tf.nn.relu6(x + 3.0) * (1 / 6)


def half_graph(network: SoundNetwork) -> bytes:
    """Convert the network for clips of any length, weights float16 on disk, float32 at work. Raises OperatorError."""
    return _converted(network, (None, None, BANDS), half=True)


def multiply_adds(network: SoundNetwork, frames: int) -> int:
    """Return the multiply-adds of a clip of so many frames."""
    return cost.multiply_adds_of(_converted(network, (1, frames, BANDS), half=False), SIGNATURE)


def _converted(network: SoundNetwork, shape: tuple[int | None, ...], *, half: bool) -> bytes:
    # A function of its own: one that was traced before, for any length, would do for this shape too.
    embed = tf.function(network.embed, autograph=False).get_concrete_function(
        tf.TensorSpec(shape, tf.float32, "log_mel")
    )
    return convert_module(network, {SIGNATURE: embed}, half=half)
