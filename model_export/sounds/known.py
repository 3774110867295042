"""The built-in everyday sounds: rows of the network's own classifier of AudioSet's classes.

The front end keeps 96 of the network's 384 numbers. The others are estimated from these by least squares, so the hidden
layer takes the 96.

Which score other sounds reach is reckoned without a recording: from what the network dreams of AudioSet's other
classes. A dream of a class is the direction in the whitened embedding in which its logit rises most against the other
classes' (activation maximisation, Erhan et al. 2009), as far from the centre as real sounds are, with the scatter of
one class. An hour counts as :data:`_AN_HOUR` of them, of any class alike: a hundred sounds, in four windows each. No
sound is heard of which the classifier itself believes less than :data:`_LEAST`.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from fleet_protocol.numbers.arrays import Doubles, Floats, Ints
from fleet_protocol.numbers.embedding_statistics import EmbeddingStatistics
from fleet_protocol.numbers.known import ONCE_AN_HOUR, KnownSounds
from model_export.sounds.weights import Classifier, Projection, hard_swish_slope

KNOWN: dict[str, tuple[int, ...]] = {
    "alarm clock": (388, 395, 481),
    "baby cry": (23,),
    "birds": (111, 112, 113),
    "blender": (369,),
    "car horn": (308, 309),
    "cat": (81, 83),
    "clapping": (63, 67),
    "cough": (47,),
    "dishes": (364, 365),
    "dog": (74, 75, 76, 78),
    "doorbell": (355, 356),
    "drill": (425,),
    "fireworks": (432, 433),
    "footsteps": (53,),
    "glass": (441, 443),
    "hair dryer": (373,),
    "hammer": (419,),
    "keyboard": (384, 386),
    "knock": (359,),
    "laughter": (16,),
    "music": (137,),
    "rain": (289, 290, 291),
    "scream": (14,),
    "siren": (323, 324, 325, 396),
    "smoke detector": (399, 400),
    "sneeze": (49,),
    "snoring": (43,),
    "speech": (0, 1, 2, 3, 4),
    "telephone": (389, 390, 391),
    "television": (524,),
    "thunder": (286, 287),
    "toilet flush": (374,),
    "vacuum cleaner": (377,),
    "water tap": (370, 371),
}
"""Numbers of AudioSet's classes, in the order of its ``class_labels_indices.csv``, by the sound that they are."""
_AN_HOUR = 400
_LEAST = 0.01
_LEAST_LOGIT = math.log(_LEAST / (1 - _LEAST))
_DREAMS = 20  # of each class
# Distance from the centre in the whitened embedding: while a dream is sought, where the layer's slopes are those of
# many sounds, and of the dream.
_NEAR, _FAR = 8.0, 22.0
_STEPS, _STEP = 60, 0.2


def known_sounds(
    classifier: Classifier, projection: Projection, embeddings: Floats, statistics: EmbeddingStatistics, seed: int
) -> KnownSounds:
    """Return what recognises :data:`KNOWN`.

    ``embeddings`` of sounds and speech, float32 [windows, 384], are those by which the numbers that the projection
    leaves out are estimated; the statistics are the front end's.
    """
    kept = embeddings @ projection.matrix + projection.offset
    whole = np.linalg.lstsq(np.column_stack([kept, np.ones(len(kept))]), embeddings.astype(np.float64), rcond=None)[0]
    inner = Classifier(
        (whole[:-1] @ classifier.first).astype(np.float32),
        (whole[-1] @ classifier.first + classifier.first_bias).astype(np.float32),
        classifier.second,
        classifier.second_bias,
    )
    classes = [number for numbers in KNOWN.values() for number in numbers]
    sound = np.repeat(np.arange(len(KNOWN)), [len(numbers) for numbers in KNOWN.values()])
    levels = np.maximum(levels_of(inner, statistics, seed, KNOWN.values(), 1 - 1 / _AN_HOUR), _LEAST_LOGIT)
    bias = inner.second_bias[classes] + (ONCE_AN_HOUR - levels)[sound]
    return KnownSounds(
        tuple(KNOWN), inner.first, inner.first_bias, inner.second[:, classes], bias.astype(np.float32), sound
    )


def levels_of(
    classifier: Classifier,
    statistics: EmbeddingStatistics,
    seed: int,
    kinds: Iterable[Sequence[int] | Ints],
    share: float,
) -> Doubles:
    """Return the logit that each kind of sound reaches in so large a share of the other classes' dreams at most.

    The classifier takes the front end's numbers; a kind is the numbers of its classes, and its logit their largest.
    """
    logits = classifier.logits(_dreams(classifier, statistics, np.random.default_rng([seed, 2])))
    dreamt = np.repeat(np.arange(logits.shape[1]), _DREAMS)
    others = (logits[~np.isin(dreamt, numbers)][:, numbers].max(axis=1) for numbers in kinds)
    return np.array([np.quantile(scores, share) for scores in others])


def _dreams(classifier: Classifier, statistics: EmbeddingStatistics, rng: np.random.Generator) -> Floats:
    """Return embeddings of all classes, one class after the other, float32 [classes * dreams, numbers]."""
    back = np.linalg.inv(statistics.whitening)
    directions = np.repeat(_directions(classifier, statistics, back), _DREAMS, axis=0)
    scattered = _FAR * directions + rng.standard_normal(directions.shape)
    return np.asarray(statistics.centre + scattered @ back, np.float32)


def _directions(classifier: Classifier, statistics: EmbeddingStatistics, back: Doubles) -> Doubles:
    """Return every class's direction in the whitened embedding, [classes, numbers] of length 1."""
    # Gradients of a class's logit less the others' softmax are followed, at a distance that grows to :data:`_NEAR`.
    count = len(classifier.second_bias)
    at = np.zeros((count, len(back)))
    for step in range(_STEPS):
        x = (statistics.centre + at @ back) @ classifier.first + classifier.first_bias
        logits = classifier.from_hidden(x)
        others = np.exp(logits - logits.max(axis=1, keepdims=True))
        np.fill_diagonal(others, 0.0)
        wanted = classifier.second.T - others / others.sum(axis=1, keepdims=True) @ classifier.second.T
        gradient = (hard_swish_slope(x) * wanted) @ classifier.first.T @ back.T
        reach = _NEAR * min(1.0, 3 * (step + 1) / _STEPS)
        at += _STEP * reach * gradient / np.linalg.norm(gradient, axis=1, keepdims=True)
        at *= np.minimum(1.0, reach / np.linalg.norm(at, axis=1, keepdims=True))
    return np.asarray(at / np.linalg.norm(at, axis=1, keepdims=True))
