"""A device that was taught the known words: its clips imported, its room heard, and then the product's own training."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np

from benchmarks.listening.material import KNOWN, RATE_HZ, Material
from edge_client.config import Config, load_config
from edge_client.learning.teaching.job import teach
from edge_client.storage.device_state import DeviceState
from fleet_protocol.arrays import Floats

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


def taught_device(folder: Path, bundle: Path, material: Material) -> Config:
    """Set a device up in a folder and teach it; return its configuration."""
    for label in KNOWN:
        (folder / "clips" / label).mkdir(parents=True)
    for clip in material.training:
        (folder / "clips" / str(clip.label) / clip.path.name).symlink_to(clip.path.resolve())
    (folder / "room").mkdir()
    for number, noise in enumerate(material.noise):
        write_wav(folder / "room" / f"{number}.wav", noise, RATE_HZ)
    (folder / "edge.toml").write_text(_CONFIG.format(bundle=bundle.resolve()))
    config = load_config(folder / "edge.toml")
    teach(config, DeviceState(config.device.state))
    return config


def write_wav(path: Path, samples: Floats, rate_hz: int) -> None:
    """Write float32 [samples] in -1..1 as 16-bit PCM."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes((samples * 32_767).clip(-32_768, 32_767).astype(np.int16).tobytes())
