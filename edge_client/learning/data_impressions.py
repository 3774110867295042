"""Data Impressions: samples that a model believes in, made from its weights alone.

Nayak et al. 2019 (zero-shot knowledge distillation) as used by Gudur & Perepu 2021, section 2.2. The head's weights say
which classes are alike (equation 1), a Dirichlet distribution draws soft labels accordingly (2), and gradient descent
on the input finds samples that the model gives these labels (3). Neither audio nor the model leaves the device.
"""

from collections.abc import Mapping

import numpy as np

from edge_client.errors import ModelError
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.methods.setting import Value
from fleet_protocol.numbers.arrays import Doubles, Floats

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
