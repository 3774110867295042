"""Every device's clips side by side in one file, so that a worker reads one device's at once and holds no others'.

Files are read, not mapped: mapped pages would count as the process's memory, and grow with the number of devices.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_client.durable import flush_folder
from fleet_simulator.corpora import Corpus
from fleet_simulator.splits import Split

Floats = NDArray[np.float32]
_ROWS = 4096  # written at a time


@dataclass(frozen=True)
class ClipShards:
    """Clips by shard: a shard for each device, then the public set, then the test clips.

    Attributes:
        folder: holds the files; :func:`write_shards` makes it.
    """

    folder: Path

    @cached_property
    def _header(self) -> dict[str, Any]:
        header: dict[str, Any] = json.loads((self.folder / "header.json").read_text())
        return header

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        ends: NDArray[np.int64] = np.load(self.folder / "ends.npy")
        return ends

    @cached_property
    def _labels(self) -> NDArray[np.int16]:
        labels: NDArray[np.int16] = np.load(self.folder / "labels.npy")
        return labels

    @cached_property
    def _descriptor(self) -> int:
        return os.open(self.folder / "features.f32", os.O_RDONLY)

    @property
    def names(self) -> tuple[str, ...]:
        """The labels in the order of their slots."""
        return tuple(str(name) for name in self._header["names"])

    @property
    def devices(self) -> int:
        """Number of devices."""
        return len(self._ends) - 3

    @property
    def public(self) -> slice:
        """Rows of the public set."""
        return self.rows(self.devices)

    @property
    def test(self) -> slice:
        """Rows that models are judged by."""
        return self.rows(self.devices + 1)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Clips of every device, int64 [devices]."""
        sizes: NDArray[np.int64] = np.diff(self._ends)[: self.devices]
        return sizes

    def rows(self, shard: int) -> slice:
        """Return the rows of a shard."""
        return slice(int(self._ends[shard]), int(self._ends[shard + 1]))

    def labels(self, rows: slice) -> NDArray[np.int64]:
        """Return the slots of rows, int64 [n]."""
        return self._labels[rows].astype(np.int64)

    def features(self, rows: slice) -> Floats:
        """Return the normalised features of rows, float32 [n, frames, coefficients]."""
        shape = tuple(int(size) for size in self._header["shape"])
        width = 4 * int(np.prod(shape))
        data = bytearray((rows.stop - rows.start) * width)
        os.preadv(self._descriptor, [data], rows.start * width)
        return np.frombuffer(data, np.float32).reshape(-1, *shape)


def open_shards(folder: Path, experiment: str) -> ClipShards | None:
    """Return the shards of an experiment, by its digest; None where they are not there, or another experiment's."""
    header = folder / "header.json"
    if not header.is_file() or json.loads(header.read_text())["experiment"] != experiment:
        return None
    return ClipShards(folder)


def write_shards(
    folder: Path,
    corpus: Corpus,
    dealt: Split,
    experiment: str,
    taught: Callable[[NDArray[np.int64], Sequence[slice]], NDArray[np.int64]] = lambda labels, _: labels,
) -> ClipShards:
    """Write a folder of shards; it is there whole or not at all.

    Args:
        folder: to be made; what is there is removed.
        corpus: the clips.
        dealt: who gets which.
        experiment: digest of the experiment.
        taught: (the right slots of all clips, every device's rows) -> the slots as the devices have them.
    """
    for stale in (folder, *folder.parent.glob(f".{folder.name}-*")):
        shutil.rmtree(stale, ignore_errors=True)
    parts = [*dealt.devices, dealt.public, dealt.test]
    order = np.concatenate(parts)
    making = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        with (making / "features.f32").open("wb") as file:
            for start in range(0, len(order), _ROWS):
                features = np.ascontiguousarray(corpus.features(order[start : start + _ROWS]), np.float32)
                file.write(features.data)
            file.flush()
            os.fsync(file.fileno())
        ends = np.cumsum([0, *(len(part) for part in parts)])
        owned = [slice(int(start), int(stop)) for start, stop in pairwise(ends[: len(dealt.devices) + 1])]
        np.save(making / "labels.npy", taught(corpus.labels[order], owned).astype(np.int16))
        np.save(making / "ends.npy", ends)
        header = {"names": list(corpus.names), "shape": list(features.shape[1:]), "experiment": experiment}
        (making / "header.json").write_text(json.dumps(header))
        making.rename(folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    flush_folder(folder.parent)
    return ClipShards(folder)
