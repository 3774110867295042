"""How a device describes sounds that the fleet does not know, whatever the strategy.

By prototypes, mean embeddings, where the front end is an embedding that all devices have in common; else by impressions
and profiles. A profile says how much each public recording sounds like the class, as this device hears it: a linear
discriminant (Fisher 1936) on the network's embedding. The class's own clips say where it lies, all clips together how
much clips of one class differ. Unlike the head's scores it does not ask what ELSE the recording could be, so that
devices that know other classes, with networks of another design, still agree (docs/class-discovery.md).
"""

from collections.abc import Mapping, Sequence

import numpy as np

from edge_client.learning.data_impressions import synthesise
from edge_client.learning.training_data import Clips
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.methods.setting import Value
from fleet_protocol.numbers.arrays import Doubles, Floats, Ints
from fleet_protocol.numbers.tensors import Arrays

# Added to the covariance's diagonal, in shares of its mean: a new class may have fewer clips than the embedding has
# dimensions.
_SHRINKAGE = 0.01


def class_means(features: Floats, slots: Ints, wanted: Sequence[int]) -> Floats:
    """Return the mean features of classes, float32 [len(wanted), frames, numbers]; each that is wanted has a clip.

    ``features``, not normalised, are float32 [clips, frames, numbers]; ``slots``, int64 [clips], their classes.
    """
    means = [features[slots == slot].mean(axis=0, dtype=np.float64) for slot in wanted]
    return np.asarray(np.stack(means), np.float32)


def profiles(public: Floats, own: Floats, slots: Ints, wanted: Sequence[int]) -> Floats:
    """Return float32 [len(wanted), public recordings]: whitened cosines of recordings and class means, -1..1.

    ``public`` and ``own`` are embeddings of the public recordings and of the device's clips, float32 [any, embedding];
    ``slots``, int64 [clips], are the clips' classes; each that is wanted has one.
    """
    classes, member = np.unique(slots, return_inverse=True)
    points = own.astype(np.float64)
    means = np.stack([points[member == index].mean(axis=0) for index in range(len(classes))])
    within = points - means[member]
    covariance = within.T @ within / len(points)
    size = len(covariance)
    loading = max(_SHRINKAGE * np.trace(covariance) / size, float(np.finfo(np.float32).tiny))
    whiten = np.linalg.cholesky(np.linalg.inv(covariance + loading * np.eye(size)))
    origin = public.mean(axis=0, dtype=np.float64)
    chosen = means[np.searchsorted(classes, wanted)]
    cosines = _unit((chosen - origin) @ whiten) @ _unit((public - origin) @ whiten).T
    return np.ascontiguousarray(cosines, np.float32)


def _unit(points: Doubles) -> Doubles:
    norms = np.linalg.norm(points, axis=1, keepdims=True)
    return np.asarray(points / np.where(norms > 0, norms, 1.0))


def describe(
    model: ModelRuntime,
    mask: Floats,
    clips: Clips,
    public: Floats,
    slots: Sequence[int],
    settings: Mapping[str, Value],
    rng: np.random.Generator,
) -> Arrays:
    """Return the array ``prototypes``, or ``impressions`` and ``profiles``, of some classes in the order of ``slots``.

    ``mask``, float32 [capacity], has the classes that the model knows; ``clips`` are normalised for it, of each class
    that is wanted some; ``public`` are the public set's normalised features, float32 [samples, frames, coefficients].
    """
    if model.manifest.feature_settings.is_embedding:
        return {"prototypes": class_means(model.denormalise(clips.x[0]), clips.slots, slots)}
    impressions = synthesise(model, mask, list(slots), settings, rng)
    own, heard = model.embed(clips.x[0]), model.embed(public)
    return {"impressions": impressions, "profiles": profiles(heard, own, clips.slots, slots)}
