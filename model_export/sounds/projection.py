"""The projection of the network's 384 numbers to those that tell sounds apart.

After whitening by the scatter within a class, the directions are kept along which the logits of AudioSet's 527 classes
differ most. So what the network learned about all these sounds says which directions matter, and only the scatter is
measured on audio.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fleet_protocol.arrays import Doubles, Floats
from fleet_protocol.embedding_statistics import Scatter
from model_export.sounds.weights import Classifier


@dataclass(frozen=True)
class Projection:
    """Embedding = numbers @ matrix + offset."""

    matrix: Floats  # float32 [384, numbers]
    offset: Floats  # float32 [numbers]


def fit(embeddings: Floats, scatter: Scatter, classifier: Classifier, numbers: int) -> Projection:
    """Return the projection to so many numbers; sounds of one class scatter by about 1 in each of them.

    Args:
        embeddings: of all kinds of sounds, float32 [clips, 384]; the classifier is linearised around them.
        scatter: of their classes.
        classifier: behind the network.
        numbers: size of the projection.
    """
    hidden = embeddings @ classifier.first + classifier.first_bias
    slopes = _hard_swish_slope(hidden).mean(axis=0, dtype=np.float64)
    logits = (classifier.first * slopes) @ classifier.second  # by which an embedding changes them, [384, 527]
    whitening = scatter.whitening
    gradients = np.linalg.solve(whitening, logits)  # in the whitened space
    gradients -= gradients.mean(axis=1, keepdims=True)
    gradients /= np.linalg.norm(gradients, axis=0)
    directions = np.linalg.svd(gradients, full_matrices=False)[0][:, :numbers]
    matrix = (whitening @ directions).astype(np.float16)  # as the graph holds it
    offset = -embeddings.mean(axis=0, dtype=np.float64) @ matrix
    return Projection(matrix.astype(np.float32), offset.astype(np.float16).astype(np.float32))


def _hard_swish_slope(x: Floats) -> Doubles:
    return np.asarray(np.where(x < -3, 0.0, np.where(x > 3, 1.0, (2 * x + 3) / 6)), np.float64)
