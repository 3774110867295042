"""The fleet's prototypes: for every class that devices have clips of, the mean of their mean embeddings.

They travel down as a blob that work names. Slots and public recordings are not needed to understand it.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet_protocol.arrays import Floats, Ints
from fleet_protocol.errors import TensorError
from fleet_protocol.tensors import Arrays, pack, require, unpack


@dataclass(frozen=True)
class FleetPrototypes:
    """Where the fleet's classes lie in the embedding that all devices have in common."""

    features: str  # Digest of the features' settings
    class_ids: tuple[str, ...]  # Classes that a device has clips of, in the fleet's order
    means: Floats  # Mean embedding of each class, not normalised, float32 [classes, frames, numbers]
    devices: Ints  # Number of devices that each mean is of, int64 [classes]
    provisional: tuple[str, ...] = ()  # Classes that too few devices have clips of to rely on

    def pack(self) -> bytes:
        """Serialise; equal content gives equal bytes."""
        arrays: Arrays = {"means": self.means, "devices": self.devices}
        document = {"classes": list(self.class_ids), "provisional": list(self.provisional), "digest": self.features}
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
        return cls(
            str(document.get("digest")), tuple(map(str, class_ids)), means, devices, tuple(map(str, provisional))
        )
