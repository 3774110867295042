"""The front ends that are measured side by side, each a bundle; and a device that is taught on one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
import soundfile

from benchmarks.bundles import build_bundles, find_bundles
from benchmarks.listening.material import RATE_HZ
from edge_client.clips.folders import choose_known
from edge_client.config import Config, load_config
from edge_client.learning.teaching.job import teach
from edge_client.storage.device_state import DeviceState
from fleet_protocol.numbers.arrays import Floats


@dataclass(frozen=True)
class FrontEnd:
    """One that is measured."""

    name: str  # as it was asked for: ``base`` and the like, or a file's name
    bundle: Path  # file of the bundle


def front_ends(names: Sequence[str], build: Path, bundles: Path | None) -> list[FrontEnd]:
    """Return front ends by the names of pretrained networks, ``base``, ``FILE.frontend`` and the like.

    ``bundles``: folder that holds the bundle NAME.auricle of each; None: a head `linear` is built on each. Raises
    BenchmarkError: a bundle is missing or cannot be built.
    """
    found = []
    for number, name in enumerate(names):
        stem, folder = Path(name).stem, bundles or build / str(number)
        architecture = stem if bundles else "linear"
        if not bundles:
            build_bundles(folder, [architecture], "--features", name)
        found.append(FrontEnd(stem, find_bundles(folder, [architecture])[architecture]))
    return found


_CONFIG = """
[device]
name = "listening"
state = "state"
[model]
bundle = "{bundle}"
[recordings]
folder = "clips"
background = "room"
"""


def taught_device(
    folder: Path,
    bundle: Path,
    takes: Mapping[str, Iterable[Path]],
    room: Iterable[Floats],
    known: Mapping[str, str] = MappingProxyType({}),
) -> Config:
    """Set a device up and teach it; arguments and result are those of :func:`new_device`."""
    config = new_device(folder, bundle, takes, room, known)
    teach(config, DeviceState(config.device.state))
    return config


def new_device(
    folder: Path,
    bundle: Path,
    takes: Mapping[str, Iterable[Path]],
    room: Iterable[Floats],
    known: Mapping[str, str] = MappingProxyType({}),
) -> Config:
    """Set a device up in a folder, with takes by label that it has not learned yet; return its configuration.

    ``known``: by label, which built-in sound it is.
    """
    for label, sound in known.items():
        choose_known(folder / "clips", label, sound)
    for label, paths in takes.items():
        (folder / "clips" / label).mkdir(parents=True, exist_ok=True)
        for path in paths:
            (folder / "clips" / label / path.name).symlink_to(path.resolve())
    (folder / "room").mkdir(parents=True)
    for number, noise in enumerate(room):
        levels = (noise * 32_767).clip(-32_768, 32_767).astype(np.int16)
        soundfile.write(folder / "room" / f"{number}.wav", levels, RATE_HZ)
    (folder / "edge.toml").write_text(_CONFIG.format(bundle=bundle.resolve()))
    return load_config(folder / "edge.toml")
