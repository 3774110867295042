"""Every device's clips side by side, so that a worker reads one device's at once and holds no others'.

Workers read them from a file, which is not mapped: mapped pages would count as the process's memory, and grow with the
number of devices. A run in one process takes them from its corpus.
"""

from __future__ import annotations

import io
import json
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_client.learning.training_data import Clips
from fleet_protocol.bundle.ready_bundles import DAMAGED
from fleet_protocol.ground.atomic_files import whole_folder, write_durably
from fleet_protocol.numbers.arrays import Floats, Ints
from fleet_simulator.data.corpora import Corpus
from fleet_simulator.errors import RunFolderError
from fleet_simulator.runs.run_folder import RowFile

_ROWS = 4096  # written at a time


@dataclass(frozen=True)
class Owned:
    """One device's rows of a corpus: to train on, to choose between models by, and to evaluate that choice on."""

    train: Ints
    choose: Ints
    evaluate: Ints


@dataclass(frozen=True)
class ClipShards:
    """Clips by shard: three for each device (see :class:`Owned`), then the public set, then the test clips."""

    names: tuple[str, ...]  # Labels in the order of their slots
    ends: Ints  # Rows at which every shard begins and the last one ends, int64 [shards + 1]
    slots: NDArray[np.int16]  # The clips' slots as the devices have them, int16 [clips]
    # Rows of one shard -> normalised features, float32 [n, variants, frames, coefficients]: the clips as they were
    # recorded and, on devices, augmented copies of them
    variants: Callable[[slice], Floats]

    @property
    def devices(self) -> int:
        """Number of devices."""
        return (len(self.ends) - 3) // 3

    @property
    def public(self) -> slice:
        """Rows of the public set."""
        return self._shard(len(self.ends) - 3)

    @property
    def test(self) -> slice:
        """Rows that the fleet's model is evaluated on."""
        return self._shard(len(self.ends) - 2)

    @property
    def sizes(self) -> Ints:
        """Clips that every device trains on, int64 [devices]."""
        sizes: Ints = np.diff(self.ends)[: 3 * self.devices : 3]
        return sizes

    def rows(self, device: int) -> slice:
        """Return the rows that a device trains on."""
        return self._shard(3 * device)

    def choose(self, device: int) -> slice:
        """Return the rows that a device chooses between models by."""
        return self._shard(3 * device + 1)

    def evaluate(self, device: int) -> slice:
        """Return the rows that a device's choice is evaluated on."""
        return self._shard(3 * device + 2)

    def labels(self, rows: slice) -> Ints:
        """Return the slots of rows, int64 [n]."""
        return self.slots[rows].astype(np.int64)

    def features(self, rows: slice) -> Floats:
        """Return the clips of a shard as they were recorded, float32 [n, frames, coefficients]."""
        return self.variants(rows)[:, 0]

    def clips(self, rows: slice) -> Clips:
        """Return the clips of a shard, and variants of them, to train on."""
        return Clips(self.variants(rows).swapaxes(0, 1), self.labels(rows))

    @property
    def on_devices(self) -> int:
        """Clips that devices have: the rows of all shards before the public set."""
        return int(self.ends[-3])

    def _shard(self, shard: int) -> slice:
        return slice(int(self.ends[shard]), int(self.ends[shard + 1]))


def deal(
    corpus: Corpus,
    owned: Sequence[Owned],
    public: Ints,
    test: Ints,
    taught: Callable[[Ints, Sequence[slice]], Ints] = lambda labels, _: labels,
) -> ClipShards:
    """Put a corpus into shards, which read its features as they are needed.

    ``taught``: (right slots of all clips, rows that every device trains on and chooses by) -> slots that devices have.
    """
    parts = [part for one in owned for part in (one.train, one.choose, one.evaluate)] + [public, test]
    order, ends = np.concatenate(parts), np.cumsum([0, *(len(part) for part in parts)])
    known = [slice(int(start), int(stop)) for start, stop in zip(ends[:-3:3], ends[2:-1:3], strict=True)]
    slots = taught(corpus.labels[order], known).astype(np.int16)
    on_devices = int(ends[-3])

    def variants(rows: slice) -> Floats:
        if rows.start < on_devices:
            return corpus.on_devices(order[rows])
        return corpus.features(order[rows])[:, None]

    return ClipShards(corpus.names, ends, slots, variants)


def open_shards(folder: Path, experiment: str | None = None) -> ClipShards | None:
    """Return the shards in a folder; None where there are none, or those of another experiment than this digest's.

    Raises RunFolderError: a file is missing or damaged.
    """
    path = folder / "header.json"
    if not path.is_file():
        return None
    try:
        header = json.loads(path.read_bytes())
        if experiment is not None and header["experiment"] != experiment:
            return None
        names, shape = tuple(str(name) for name in header["names"]), tuple(map(int, header["shape"]))
        ends, slots = np.load(folder / "ends.npy"), np.load(folder / "labels.npy")
        on_devices, clips = int(ends[-3]), int(ends[-1])
        file = RowFile(folder / "features.f32", math.prod(shape[1:]))
        rows = on_devices * shape[0] + clips - on_devices
        if len(slots) != clips or file.path.stat().st_size != 4 * rows * file.width:
            raise ValueError(f"labels.npy or features.f32 is not as long as {clips} clips")
    except DAMAGED as error:
        raise RunFolderError(f"{folder} is damaged ({error}); remove it, the same command makes it again") from error

    def variants(rows: slice) -> Floats:
        each, before = (shape[0] if rows.start < on_devices else 1), min(rows.start, on_devices)
        found = file.read(before * (shape[0] - 1) + rows.start, (rows.stop - rows.start) * each)
        return found.reshape(-1, each, *shape[1:])

    return ClipShards(names, ends, slots, variants)


def write_shards(folder: Path, shards: ClipShards, experiment: str) -> None:
    """Write a folder of shards, whole or not at all; what is there is removed. ``experiment`` is its digest."""
    shutil.rmtree(folder, ignore_errors=True)
    with whole_folder(folder) as making:
        shape, place = shards.variants(slice(0, 1)).shape[1:], 0
        file = RowFile(making / "features.f32", math.prod(shape[1:]))
        for start, stop in ((0, shards.on_devices), (shards.on_devices, len(shards.slots))):
            for first, end in pairwise([*range(start, stop, _ROWS), stop]):
                features = shards.variants(slice(first, end)).reshape(-1, file.width)
                file.write(place, features)
                place += len(features)
        file.flush()
        for name, array in (("labels.npy", shards.slots), ("ends.npy", shards.ends)):
            content = io.BytesIO()
            np.save(content, array)
            write_durably(making / name, content.getvalue())
        header = {"names": list(shards.names), "shape": list(shape), "experiment": experiment}
        write_durably(making / "header.json", json.dumps(header).encode())
