"""The demonstration's three devices: their folders, their configuration, and what stands in their state afterwards."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edge_client.model.runtime import ModelRuntime
from edge_client.storage.checked_files import write_twice
from edge_client.storage.device_state import DeviceState
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
        name: of the user.
        architecture: of its model.
        labels: that it knows from the start.
        folder: of its configuration, its recordings and its state.
        bundle: its model as built.
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
        state = DeviceState(self.folder / "state")
        identity = {
            "device_id": hashlib.sha256(f"{seed} {self.name}".encode()).hexdigest()[:32],
            "secret": secrets.token_urlsafe(32),
        }
        write_twice(state.folder / "identity.json", json.dumps(identity).encode())

    def add(self, recordings: Mapping[str, Sequence[Path]]) -> None:
        """Put recordings into its folder; the daemon finds them when the next round starts."""
        link(recordings, self.folder / "recordings")

    def label_map(self) -> LabelMap:
        """Return which slot of its model is which class now."""
        return DeviceState(self.folder / "state").load_model(self.bundle).progress.label_map

    def listening_labels(self) -> LabelMap:
        """Return its labels without the slots that the model with which it listens never learned."""
        return DeviceState(self.folder / "state").load_model(self.bundle).progress.listening_labels

    def open_model(self) -> ModelRuntime:
        """Open the model with which it listens now."""
        saved = DeviceState(self.folder / "state").load_model(self.bundle)
        return ModelRuntime(saved.listening_bundle)


def link(recordings: Mapping[str, Sequence[Path]], folder: Path) -> None:
    """Lay recordings out as ``<label>/<file>`` without copying them."""
    for label, paths in recordings.items():
        (folder / label).mkdir(parents=True, exist_ok=True)
        for path in paths:
            (folder / label / path.name).symlink_to(path.resolve())
