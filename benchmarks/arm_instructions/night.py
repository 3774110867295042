"""A device's night: what its three trainings take where it has heard its room for a week.

On this machine a device is taught, and given a full reservoir. `python -m benchmarks.arm_instructions.night CONFIG`
then does in the emulated ARMv7 what the daemon does in the night, under the plug-in of count.c.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.arm_instructions.counted import mark
from benchmarks.command import BenchmarkError
from edge_client.clips.store import ClipStore
from edge_client.config import Config, load_config
from edge_client.learning.teaching.job import teach
from edge_client.learning.teaching.room_material import judge_room
from edge_client.room.memory import layout_of
from edge_client.room.reservoir import DAY_S, HOUR_S, HOURS, Layout, Sample
from edge_client.room.store import write_sample
from edge_client.storage.device_state import DeviceState
from fleet_protocol.arrays import Floats
from fleet_protocol.bundle import read_bundle
from fleet_protocol.embedding_statistics import EmbeddingStatistics

LABELS, TAKES = 4, 10
_DAYS = 7


def make_ready(folder: Path, bundle: Path) -> Path:
    """Make a device in a folder that has learned its takes, and heard its room for a week; return its configuration.

    Raises BenchmarkError: with this bundle a device does not learn its room.
    """
    path = folder / "edge.toml"
    device = '[device]\nname = "night"\nstate = "state"\n'
    path.write_text(f'{device}[model]\nbundle = "{bundle.resolve()}"\n[microphone]\n')
    config = load_config(path)
    manifest = read_bundle(bundle).manifest
    layout = layout_of(manifest, config.detector)
    if layout is None or manifest.embedding_statistics is None:
        raise BenchmarkError(f"with {bundle} a device does not learn its room; choose `words` or `base`")
    settings, rng = manifest.feature_settings, np.random.default_rng(0)
    store = ClipStore(config.clips_folder, config.clips, settings.sample_rate_hz)
    with store.changing():
        for label in range(LABELS):
            for _ in range(TAKES):
                store.add(f"label {label}", _tone(label, settings.clip_samples, rng), settings.sample_rate_hz)
    state = DeviceState(config.device.state)
    teach(config, state)
    write_sample(state.room_path, layout, _full(layout, manifest.embedding_statistics, rng))
    return path


def _tone(label: int, samples: int, rng: np.random.Generator) -> Floats:
    """Return a rising tone, another one for each label, with a little noise."""
    turns = np.cumsum(np.linspace(0.02, 0.03 + 0.02 * label, samples) * rng.uniform(0.9, 1.1))
    sound = 0.3 * np.sin(2 * np.pi * turns) + 0.01 * rng.normal(size=samples)
    return np.asarray(sound, np.float32)


def _full(layout: Layout, statistics: EmbeddingStatistics, rng: np.random.Generator) -> Sample:
    """Return as many runs of people's talk as a reservoir keeps."""
    runs, now = HOURS * layout.runs, time.time()
    windows = statistics.speech.draw(statistics.speech.means[0], runs * layout.windows, rng)
    return Sample(
        windows=windows.reshape(runs, layout.windows, layout.numbers).astype(np.float16),
        at_s=now - rng.uniform(0.0, _DAYS * DAY_S, runs),
        hours=np.repeat(np.arange(HOURS), layout.runs).astype(np.int8),
        taken=np.full(runs, -1, np.int16),
        weights=np.zeros(runs),
        priorities=np.sort(rng.exponential(size=runs)),
        passed=np.full(HOURS, 5.0),
        heard_s={(int(now // DAY_S) - day, hour): HOUR_S for day in range(_DAYS) for hour in range(HOURS)},
    )


def learn(config: Config) -> None:
    """Learn as in the night, between two marks."""
    mark(0)
    state = DeviceState(config.device.state)
    judge_room(state, time.time())
    teach(config, state)
    mark(1)


if __name__ == "__main__":
    learn(load_config(Path(sys.argv[1])))
