"""The public set D_0: features that every device scores, and the fleet's consensus on them.

Gudur & Perepu 2021, section 2.1. A discovered class adds its averaged data impressions as rows (D_new = D_0 u X^i).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import dacite
import numpy as np

from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.errors import TensorError
from fleet_protocol.messages.rest import ClassInfo
from fleet_protocol.numbers.arrays import Bools, Floats, Ints
from fleet_protocol.numbers.tensors import Arrays, Buffer, pack, require, unpack


@dataclass(frozen=True)
class PublicSet:
    """Public samples with their classes."""

    settings: FeatureSettings  # Feature settings with which the features were computed
    classes: tuple[ClassInfo, ...]  # Classes of the fleet; ``labels`` index it
    features: Floats  # Features, float32 [samples, frames, coefficients], not normalised
    labels: Ints  # Places in ``classes``, int64 [samples]
    synthetic: Bools  # Kind of each sample, bool [samples]: True for data impressions, False for recordings

    @property
    def class_ids(self) -> tuple[str, ...]:
        """The classes' identifiers, in column order."""
        return tuple(info.class_id for info in self.classes)

    def pack(self) -> bytes:
        """Serialise; equal content gives equal bytes."""
        arrays: Arrays = {"features": self.features, "labels": self.labels, "synthetic": self.synthetic}
        return pack(arrays, {"features": self.settings.to_json(), "classes": [asdict(info) for info in self.classes]})

    @classmethod
    def unpack(cls, data: Buffer) -> PublicSet:
        """Read and check what :meth:`pack` wrote. Raises TensorError: damaged, or not a public set."""
        arrays, document = unpack(data)
        try:
            settings = FeatureSettings.from_json(document["features"])
            classes = tuple(dacite.from_dict(ClassInfo, info) for info in document["classes"])
        except (AttributeError, KeyError, TypeError, dacite.DaciteError) as error:
            raise TensorError(f"not a public set: {error}") from error
        features = require(arrays, "features", (None, *settings.shape))
        labels = require(arrays, "labels", (len(features),), kind="i")
        synthetic = require(arrays, "synthetic", (len(features),), kind="b")
        if not len(features) or not classes:
            raise TensorError("a public set needs at least one sample and one class")
        if len({info.class_id for info in classes}) != len(classes):
            raise TensorError("a public set's classes must be unique")
        if labels.min() < 0 or labels.max() >= len(classes):
            raise TensorError(f"public labels run from {labels.min()} to {labels.max()} for {len(classes)} classes")
        return cls(settings, classes, features.astype(np.float32), labels.astype(np.int64), synthetic)


def pack_consensus(scores: Floats, class_ids: tuple[str, ...]) -> bytes:
    """Serialise the fleet's scores, float32 [samples, classes]."""
    return pack({"scores": scores}, {"classes": list(class_ids)})


def unpack_consensus(data: bytes) -> tuple[Floats, tuple[str, ...]]:
    """Read what :func:`pack_consensus` wrote: (float32 [samples, classes], class ids). Raises TensorError."""
    arrays, document = unpack(data)
    class_ids = document.get("classes")
    if not isinstance(class_ids, list):
        raise TensorError("not a consensus: its document names no classes")
    return require(arrays, "scores", (None, len(class_ids))), tuple(str(name) for name in class_ids)
