"""What the parity test trains on: the variants of the zoo, and batches that every process makes alike."""

import numpy as np

VARIANTS = {
    **{name: {"architecture": name} for name in ("cnn1", "cnn2", "cnn3", "cnn4", "dscnn3", "ann3")},
    **{f"{name}-pool": {"architecture": name, "downsampling": "pool"} for name in ("cnn1", "cnn2", "cnn4", "dscnn3")},
    "cnn2-softmax": {"architecture": "cnn2", "activation": "softmax"},
}
BATCH, CAPACITY, STEPS = 32, 12, 50
RATE, TEMPERATURE, PROXIMAL = 0.05, 2.0, 0.1
PADDED = 5  # zero rows at the end of every batch


def variant(name):
    """The keyword arguments of a specification."""
    return VARIANTS[name]


def mask():
    """Nine of twelve classes are on, not only the first ones."""
    switched = np.ones(CAPACITY, np.float32)
    switched[[1, 5, 11]] = 0
    return switched


def batches():
    """x [STEPS, BATCH, 20, 13], of classes with a pattern each, and soft, signed targets [STEPS, BATCH, CAPACITY]."""
    generator = np.random.default_rng(7)
    on = np.flatnonzero(mask())
    patterns = generator.normal(size=(CAPACITY, 20, 13))
    labels = generator.choice(on, size=(STEPS, BATCH))
    x = patterns[labels] + generator.normal(size=(STEPS, BATCH, 20, 13))
    soft = generator.dirichlet(np.ones(len(on)), size=(STEPS, BATCH)) - 0.02
    targets = np.eye(CAPACITY)[labels] * 0.8
    targets[..., on] += 0.2 * soft
    targets[:, -PADDED:] = 0
    x[:, -PADDED:] = 0
    return x.astype(np.float32), targets.astype(np.float32)
