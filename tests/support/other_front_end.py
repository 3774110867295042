"""A public set with the features of `base`, for fleets that move to it; the numbers mean nothing."""

import numpy as np

from fleet_protocol.bundle import read_bundle
from fleet_protocol.messages import ClassInfo
from fleet_protocol.public_set import PublicSet
from fleet_protocol.ready_bundles import find_bundle
from tests.support.aggregator_process import public_set

BASE = read_bundle(find_bundle("base")).manifest.feature_settings


def other_public_set(names: tuple[str, ...] | None = None, each: int = 6) -> PublicSet:
    """So many rows of each class; of the classes of :func:`tests.support.aggregator_process.public_set` by default."""
    known = public_set(8).classes if names is None else tuple(ClassInfo(name, name) for name in names)
    features = np.random.default_rng(3).normal(size=(each * len(known), *BASE.shape)).astype(np.float32)
    labels = np.repeat(np.arange(len(known)), each)
    return PublicSet(BASE, known, features, labels, np.zeros(len(labels), np.bool_))
