"""The fleet's prototypes: for every class that devices have clips of, the mean of their mean embeddings.

Beside them stand what comes before the newest window of long words, and negative prototypes: sounds that some owner's
device took for a class, and that are none of its.

They travel down as a blob that work names. Slots and public recordings are not needed to understand it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from fleet_protocol.errors import TensorError
from fleet_protocol.limits import NAME_LENGTH, NEGATIVES_OF_FLEET
from fleet_protocol.numbers.arrays import Floats, Ints
from fleet_protocol.numbers.tensors import Arrays, pack, require, unpack
from fleet_protocol.numbers.word_order import WordOrder


@dataclass(frozen=True)
class Negatives:
    """What resembles classes and is none of their sounds, a row for each such sound."""

    class_ids: tuple[str, ...]  # Class of each row that it is not; a class may have several rows
    means: Floats  # Mean embedding of each, not normalised, float32 [negatives, frames, numbers]
    devices: Ints  # Number of devices that said so of each, int64 [negatives]

    def only(self, class_ids: Collection[str]) -> Negatives | None:
        """Return those of some classes; None where there are none."""
        rows = [row for row, class_id in enumerate(self.class_ids) if class_id in class_ids]
        names = tuple(self.class_ids[row] for row in rows)
        return Negatives(names, self.means[rows], self.devices[rows]) if rows else None

    def of_classes(self) -> dict[str, Floats]:
        """Return the negatives of every class that has some, float32 [any, numbers]."""
        names = np.array(self.class_ids)
        return {class_id: self.means[names == class_id, 0] for class_id in dict.fromkeys(self.class_ids)}


@dataclass(frozen=True)
class FleetPrototypes:
    """Where the fleet's classes lie in the embedding that all devices have in common."""

    features: str  # Digest of the features' settings
    class_ids: tuple[str, ...]  # Classes that a device has clips of, in the fleet's order
    means: Floats  # Mean embedding of each class, not normalised, float32 [classes, frames, numbers]
    devices: Ints  # Number of devices that each mean is of, int64 [classes]
    provisional: tuple[str, ...] = ()  # Classes that too few devices have clips of to rely on
    negatives: Negatives | None = None  # None where no owner corrected anything
    order: WordOrder | None = None  # Of each class; None where nobody sent one

    def pack(self) -> bytes:
        """Serialise; equal content gives equal bytes."""
        arrays: Arrays = {"means": self.means, "devices": self.devices}
        if self.order is not None:
            arrays |= self.order.arrays
        document = {"classes": list(self.class_ids), "provisional": list(self.provisional), "digest": self.features}
        if self.negatives is not None:
            arrays |= {"negatives": self.negatives.means, "negative_devices": self.negatives.devices}
            document["negatives"] = list(self.negatives.class_ids)
        return pack(arrays, document)

    @classmethod
    def unpack(cls, data: bytes) -> FleetPrototypes:
        """Read and check what :meth:`pack` wrote. Raises TensorError: damaged, or no prototypes."""
        arrays, document = unpack(data)
        class_ids, provisional = document.get("classes"), document.get("provisional")
        if not isinstance(class_ids, list) or not isinstance(provisional, list) or "means" not in arrays:
            raise TensorError("not a fleet's prototypes: its document names no classes, or there are no means")
        means = require(arrays, "means", (len(class_ids), None, None))
        devices = require(arrays, "devices", (len(class_ids),), kind="i")
        negatives = None
        if "negatives" in arrays:
            denied = document.get("negatives")
            if not isinstance(denied, list):
                raise TensorError("the fleet's prototypes have negatives, but the document names no classes of them")
            rows = require(arrays, "negatives", (len(denied), *means.shape[1:]))
            said = require(arrays, "negative_devices", (len(denied),), kind="i")
            negatives = Negatives(tuple(map(str, denied)), rows, said)
            for class_id, times in Counter(negatives.class_ids).items():
                if times > NEGATIVES_OF_FLEET:
                    raise TensorError(
                        f"the fleet's prototypes have {times} negatives of {class_id[:NAME_LENGTH]!r}; at most "
                        f"{NEGATIVES_OF_FLEET} of a class are read"
                    )
        names = tuple(map(str, class_ids)), tuple(map(str, provisional))
        order = WordOrder.read(arrays, len(class_ids), means.shape[1:])
        return cls(str(document.get("digest")), names[0], means, devices, names[1], negatives, order)
