"""The graph of a classifier for openWakeWord.

openWakeWord computes a column of Google's speech embedding every 80 ms, and asks a classifier about the newest 16:
float32 [1, 16, 96] -> float32 [1, 1]. A device's window is the mean of 13 columns. So 16 columns hold four windows; the
classifier averages their scores, as a device does that looks every 80 ms and averages over 0.32 s.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from edge_client.detection.scores import NEUTRAL, WORTH
from edge_client.detection.thresholds import LARGEST
from fleet_protocol.arrays import Floats
from fleet_protocol.bundle import Bundle
from fleet_protocol.labels import LabelMap
from model_export.bundle import build_network, convert, load_weights
from model_export.errors import ExportError
from model_export.layers.operators import Tensor
from model_export.specification import Specification

_COLUMNS, _NUMBERS = 16, 96
_OFF = -1e9  # as in a bundle's graph
_SURE = 1e-6  # float32 tells no score nearer to 1 from 1


def wake_word_graph(
    bundle: Bundle, labels: LabelMap, label: str, threshold: float, prototype: Floats | None = None
) -> bytes:
    """Return a TFLite file of a taught word: columns, float32 [1, 16, 96], to a score, float32 [1, 1].

    With p, the mean of the label's share of the softmax over the windows that the columns hold, and a threshold t, the
    score is p (1 - t) / (p (1 - t) + t (1 - p)): it rises with p from 0 to 1, and is 0.5 at the threshold.

    Raises ExportError: the bundle's windows are others; OperatorError: it needs an operator that a runtime lacks.
    """
    manifest = bundle.manifest
    specification = Specification.of(manifest)
    model = build_network(specification)
    load_weights(model, bundle.weights)
    weights = [tf.constant(variable.value) for variable in model.trainable_variables]
    mean, scale = (np.asarray(numbers, np.float32) for numbers in (manifest.mean, manifest.std))
    off = (1.0 - labels.listening_mask) * np.float32(_OFF)
    slot = labels.slot_of(label)
    threshold = min(threshold, 1 - _SURE)
    settings = specification.settings
    if settings.frames > _COLUMNS or settings.shape != (1, _NUMBERS):
        raise ExportError(
            f"a window of this bundle has {settings.frames} columns of {settings.shape[1]} numbers, but openWakeWord "
            f"hands {_COLUMNS} of {_NUMBERS} to a classifier; build it with --features speech_embedding"
        )

    near = _nearness(bundle, prototype)

    def score(columns: Tensor) -> Tensor:
        windows = tf.nn.avg_pool2d(tf.expand_dims(columns, 2), (settings.frames, 1), 1, "VALID")
        x = (tf.reshape(windows, (-1, *settings.shape)) - mean) * (1.0 / scale)
        logits, _ = model.stateless_call(weights, [], x)
        shares = near(tf.reshape(windows, (-1, _NUMBERS)), tf.nn.softmax(logits + off)[:, slot : slot + 1])
        p = tf.reduce_mean(shares, axis=0, keepdims=True)
        above = p * (1.0 - threshold)
        return above / (above + (1.0 - p) * threshold)

    shape = tf.TensorSpec((1, _COLUMNS, _NUMBERS), tf.float32, "columns")
    function = tf.function(score, autograph=False).get_concrete_function(shape)
    return convert(tf.lite.TFLiteConverter.from_concrete_functions([function], tf.Module()))


def _nearness(bundle: Bundle, direction: Floats | None) -> Callable[[Tensor, Tensor], Tensor]:
    """Return what adds the prototype's score to the head's, as :class:`edge_client.detection.scores.Scorer` does."""
    statistics = bundle.manifest.embedding_statistics
    if direction is None or statistics is None:
        return lambda _, shares: shares
    centre, whitening = statistics.centre.astype(np.float32), statistics.whitening.astype(np.float32)
    least = np.float32(1 / (1 + np.exp(LARGEST)))

    def add(embeddings: Tensor, shares: Tensor) -> Tensor:
        z = tf.matmul(embeddings - centre, whitening)
        cosines = tf.matmul(z, direction[:, None]) / tf.sqrt(tf.reduce_sum(z * z, axis=1, keepdims=True))
        p = tf.clip_by_value(shares, least, 1 - least)
        logits = tf.math.log(p) - tf.math.log(1 - p) + WORTH * (cosines - NEUTRAL)
        return tf.sigmoid(tf.clip_by_value(logits, -LARGEST, LARGEST))

    return add
