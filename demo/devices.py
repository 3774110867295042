"""The three devices of a fleet: their folders, their configuration, and what they listen with afterwards."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edge_client.audio.recordings import Recordings
from edge_client.features.front_end import open_front_end
from edge_client.model.runtime import ModelRuntime
from edge_client.storage.checked_files import write_twice
from edge_client.storage.device_state import DeviceState
from fleet_protocol.arrays import Floats, Ints
from fleet_protocol.bundle import read_bundle
from fleet_protocol.labels import LabelMap

_CONFIG = """\
[device]
name = {name}
state = "state"
threads = 1
seed = {seed}

[server]
url = {url}
enrol_token = {token}
longest_pause_s = 5

[model]
bundle = {bundle}

[recordings]
folder = "recordings"
per_round = [{low}, {high}]
evaluation = {evaluation}
"""


@dataclass(frozen=True)
class Device:
    """One user's device.

    Attributes:
        name: Name of the user.
        architecture: Ready bundle with which it begins.
        labels: Labels that it knows from the start.
        folder: Folder of its configuration, its recordings and its state.
        bundle: File of its bundle.
    """

    name: str
    architecture: str
    labels: tuple[str, ...]
    folder: Path
    bundle: Path

    @property
    def config(self) -> Path:
        """Its configuration file."""
        return self.folder / "device.toml"

    @property
    def state(self) -> DeviceState:
        """Its state on disk."""
        return DeviceState(self.folder / "state")

    def prepare(self, url: str, token: str, evaluation: Path, per_round: tuple[int, int], seed: int) -> None:
        """Write its configuration and draw its identity.

        A device draws its identifier at random and everything random from it; here it follows from the seed, so that
        the demonstration can be repeated.
        """
        texts = {"name": self.name, "url": url, "token": token, "bundle": self.bundle, "evaluation": evaluation}
        quoted = {key: json.dumps(str(value)) for key, value in texts.items()}
        text = _CONFIG.format(seed=seed, low=per_round[0], high=per_round[1], **quoted)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.config.write_text(text, encoding="utf-8")
        identity = {
            "device_id": hashlib.sha256(f"{seed} {self.name}".encode()).hexdigest()[:32],
            "secret": secrets.token_urlsafe(32),
        }
        write_twice(self.state.folder / "identity.json", json.dumps(identity).encode())

    def add(self, recordings: Mapping[str, Sequence[Path]]) -> None:
        """Put recordings into its folder; the daemon finds them when the next round starts."""
        link(recordings, self.folder / "recordings")

    def names(self) -> dict[int, str]:
        """Return the owner's word for every slot of its model."""
        return dict(enumerate(self.state.model.load(self.bundle).progress.label_map.names))

    def listening_labels(self) -> LabelMap:
        """Return its labels without the slots that the model with which it listens never learned."""
        return self.state.model.load(self.bundle).progress.listening_labels

    def heard_as(self, held_out: Mapping[str, Floats], mask: Floats) -> dict[str, Ints]:
        """Return the slot that the model with which it listens prefers for every recording, int64 [n] by label.

        ``held_out`` has features by label, float32 [n, frames, coefficients]; ``mask``, float32 [slots], is 1 for the
        slots to choose from.
        """
        model = ModelRuntime(self.state.model.load(self.bundle).listening_bundle)
        return {label: model.predict(model.normalise(rows), mask).argmax(axis=1) for label, rows in held_out.items()}


def own_accuracy(device: Device, held_out: Mapping[str, Floats], *, with_new: bool) -> float:
    """Return how many recordings of the labels that a device knew from the start it names rightly, in percent.

    ``held_out`` has features of all held-out recordings, by label. It chooses among all that it listens for, or, unless
    ``with_new``, without the labels that came later.
    """
    label_map = device.listening_labels()
    mask = label_map.listening_mask
    if not with_new:
        mask[[slot for slot, name in enumerate(label_map.names) if name not in device.labels]] = 0.0
    chosen = device.heard_as({label: held_out[label] for label in device.labels}, mask)
    return 100 * float(np.concatenate([rows == label_map.slot_of(label) for label, rows in chosen.items()]).mean())


def read_held_out(folder: Path, bundle: Path) -> dict[str, Floats]:
    """Compute the features of recordings that lie as ``<label>/<file>``, as a bundle wants them, by label."""
    settings = read_bundle(bundle).manifest.feature_settings
    source, front_end = Recordings(folder, settings), open_front_end(settings)
    return {label: front_end(source.load(source.clips(label))) for label in source.labels()}


def link(recordings: Mapping[str, Sequence[Path]], folder: Path) -> None:
    """Lay recordings out as ``<label>/<file>`` without copying them."""
    for label, paths in recordings.items():
        (folder / label).mkdir(parents=True, exist_ok=True)
        for path in paths:
            (folder / label / path.name).symlink_to(path.resolve())
