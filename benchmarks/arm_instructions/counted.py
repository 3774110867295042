"""What is counted: runs in the emulated ARMv7, and marks where each measurement starts and ends.

Run as `python -m benchmarks.arm_instructions.counted BUNDLE` under the plug-in of count.c.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from edge_client.config.sections import DetectorConfig
from edge_client.detection.pace import pace_of
from edge_client.features.embedding import Embedding, JointEmbedding
from edge_client.features.front_end import open_front_end, open_sliding
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.feature_settings import FeatureSettings

# In the order of their marks: measurement i lies between marks 2 i and 2 i + 1.
MEASUREMENTS = ("train", "train_signature", "inference", "inference_signature", "clip", "hop", "network")
REPETITIONS = 4
_MARK, _CLASSES, _RATE = 77, 10, 0.05


def mark(number: int) -> None:
    """Have the plug-in print its count; to a kernel the call is merely a wrong argument."""
    with contextlib.suppress(OSError):
        os.getpriority(_MARK, number)


def calls(bundle: Path) -> dict[str, Callable[[], object]]:
    """Return what is measured: a training step on a whole batch, an inference of one clip, and the front end.

    The first two each once as a device does it, through ModelRuntime, and once as the bare signature with its input at
    hand.
    """
    runtime = ModelRuntime.open(bundle)
    batch, capacity = runtime.manifest.batch, runtime.manifest.capacity
    x = np.random.default_rng(0).normal(size=(batch, *runtime.manifest.input_shape)).astype(np.float32)
    targets = np.eye(capacity, dtype=np.float32)[np.arange(batch) % _CLASSES]
    mask = (np.arange(capacity) < _CLASSES).astype(np.float32)
    one = x[:1]
    settings = {"learning_rate": _RATE, "momentum": 0.9, "proximal": 0.0, "temperature": 1.0}
    scalars = {name: np.array(value, np.float32) for name, value in settings.items()}
    train, predict = (runtime._signatures[name] for name in ("train", "predict"))
    return {
        "train": lambda: runtime.train_step(x, targets, mask, learning_rate=_RATE),
        "train_signature": lambda: train(x=x, targets=targets, mask=mask, **scalars),
        "inference": lambda: runtime.predict(one, mask),
        "inference_signature": lambda: predict(x=one, mask=mask, temperature=scalars["temperature"]),
        **_front_end(runtime.manifest.feature_settings),
    }


def _front_end(settings: FeatureSettings) -> dict[str, Callable[[], object]]:
    """Return the features of a clip, those of a stream's next window, and the network that works for the latter."""
    hop = pace_of(DetectorConfig(), settings).hop_frames
    features_of, slide = open_front_end(settings), open_sliding(settings, hop)
    sound = np.random.default_rng(1).normal(scale=0.1, size=settings.clip_samples).astype(np.float32)
    network: Callable[[], object] = list  # stands for the network of a front end that has none
    if isinstance(features_of, (Embedding, JointEmbedding)):
        parts = features_of.parts if isinstance(features_of, JointEmbedding) else (features_of,)
        rng = np.random.default_rng(2)
        pictures = [rng.normal(size=(1, *part.settings.log_mel.shape)).astype(np.float32) for part in parts]

        def network() -> object:
            return [part.of_log_mel(picture) for part, picture in zip(parts, pictures, strict=True)]

    return {"clip": lambda: features_of(sound), "hop": lambda: slide(sound), "network": network}


def measure(measured: Mapping[str, Callable[[], object]], first: int = 0, *, repeated: bool = True) -> None:
    """Mark what is measured, from measurement ``first`` on, after as many calls that are not counted.

    ``repeated``: False: each is called once, and counts as the repetitions do.
    """
    for number, call in enumerate(measured.values(), first):
        for start in (True, False):
            for _ in range(REPETITIONS if repeated else not start):
                call()
            mark(2 * number + (0 if start else 1))


if __name__ == "__main__":
    measure(calls(Path(sys.argv[1])))
