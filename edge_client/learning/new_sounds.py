"""How a device describes sounds that the fleet does not know, whatever the strategy.

By prototypes, mean embeddings, where the front end is an embedding that all devices have in common; else by impressions
and profiles. A profile says how much each public recording sounds like the class, as this device hears it: a linear
discriminant (Fisher 1936) on the network's embedding. The class's own clips say where it lies, all clips together how
much clips of one class differ. Unlike the head's scores it does not ask what ELSE the recording could be, so that
devices that know other classes, with networks of another design, still agree (docs/class-discovery.md).

Data Impressions are samples that a model believes in, made from its weights alone: Nayak et al. 2019 (zero-shot
knowledge distillation) as used by Gudur & Perepu 2021, section 2.2. The head's weights say which classes are alike
(equation 1), a Dirichlet distribution draws soft labels accordingly (2), and gradient descent on the input finds
samples that the model gives these labels (3). Neither audio nor the model leaves the device.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from edge_client.errors import ModelError
from edge_client.learning.training_data import Clips
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.methods.setting import Value
from fleet_protocol.numbers.arrays import Doubles, Floats, Ints
from fleet_protocol.numbers.tensors import Arrays

# Added to the covariance's diagonal, in shares of its mean: a new class may have fewer clips than the embedding has
# dimensions. From 0.003 to 0.05 it made no difference.
_SHRINKAGE = 0.01
# Rows of the similarity matrix are scaled to [floor, 1]: a Dirichlet distribution needs positive concentrations.
_FLOOR = 0.01
# Soft labels whose largest entry is another class are drawn again, this often at most.
_DRAWS = 1_000


def class_similarity(head: Floats) -> Doubles:
    """Return C(i, j) = cosine of the weights into classes i and j of a head, [embedding, classes] (equation 1)."""
    weights = np.asarray(head, np.float64)
    norms = np.linalg.norm(weights, axis=0)
    unit = weights / np.where(norms > 0, norms, 1.0)
    return np.asarray(unit.T @ unit)


def soft_labels(similarity: Doubles, label: int, count: int, scale: float, rng: np.random.Generator) -> Floats:
    """Draw labels of one class: float32 [count, classes], each with its largest entry at ``label`` (equation 2).

    The row of the similarity matrix is scaled to 0..1, floored, and only THEN multiplied by ``scale``: normalising
    again afterwards would cancel the scale.
    """
    row = similarity[label]
    spread = row.max() - row.min()
    scaled = (row - row.min()) / spread if spread > 0 else np.ones_like(row)
    concentration = np.maximum(scaled, _FLOOR) * scale
    kept = np.zeros((0, len(row)))
    for _ in range(_DRAWS):
        drawn = rng.dirichlet(concentration, count)
        kept = np.concatenate([kept, drawn[drawn.argmax(axis=1) == label]])
        if len(kept) >= count:
            return kept[:count].astype(np.float32)
    raise ModelError(
        f"could not draw {count} soft labels of class {label} from concentrations {concentration.round(4).tolist()}; "
        "change impression_scale"
    )


def synthesise(
    model: ModelRuntime, mask: Floats, slots: list[int], settings: Mapping[str, Value], rng: np.random.Generator
) -> Floats:
    """Make impressions of some classes: float32 [len(slots), count, frames, coefficients], features NOT normalised.

    The model's weights are read, never changed. ``mask``, float32 [capacity], has the classes in use; ``settings`` of
    a plan: ``impressions``, how many, and how they are made (docs/methods.md).
    """
    count, scale = int(settings["impressions"]), float(settings["impression_scale"])
    active = np.flatnonzero(mask)
    head = model.get_weights()[model.manifest.head.weights[0]][:, active]
    similarity = class_similarity(head)
    made = []
    for slot in slots:
        labels = soft_labels(similarity, int(np.searchsorted(active, slot)), count, scale, rng)
        targets = np.zeros((count, len(mask)), np.float32)
        targets[:, active] = labels
        made.append(model.denormalise(_descend(model, mask, targets, settings, rng)))
    return np.stack(made)


def _descend(
    model: ModelRuntime, mask: Floats, targets: Floats, settings: Mapping[str, Value], rng: np.random.Generator
) -> Floats:
    """Minimise CE(y, softmax(model(x) / T)) + l2/2 |x|^2 over x by Adam (equation 3; Kingma & Ba 2015)."""
    rate, l2, start, temperature = (
        float(settings[name]) for name in ("impression_rate", "impression_l2", "impression_start", "temperature")
    )
    x = (start * rng.standard_normal((len(targets), *model.manifest.input_shape))).astype(np.float32)
    first, second = np.zeros_like(x), np.zeros_like(x)
    for step in range(1, int(settings["impression_steps"]) + 1):
        gradient = model.input_gradient(x, targets, mask, temperature)[0] + np.float32(l2) * x
        first += np.float32(0.1) * (gradient - first)
        second += np.float32(0.001) * (gradient * gradient - second)
        size = rate * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        x -= np.float32(size) * first / (np.sqrt(second) + np.float32(1e-8))
    return x


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
