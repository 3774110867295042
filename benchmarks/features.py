"""Features: how much faster than python_speech_features, and how equal, preset by preset.

Both compute the same clips (real ones where there are recordings), one call per clip; ours also all in one call, as a
device computes a round's. Repetitions of the three take turns, and medians of the thread's processor time are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_client.capture.recordings import Recordings
from edge_client.features import Mfcc
from fleet_protocol.feature_settings import PRESETS, FeatureSettings

DATA = Path(os.environ.get("AURICLE_DATA", Path(__file__).resolve().parent.parent.parent / "shared" / "data"))
CLIPS = 32

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Comparison:
    """One preset's figures; times in microseconds per clip."""

    reference_us: float
    single_us: float
    batch_us: float
    speedup_single: float
    speedup_batch: float
    max_abs_difference: float


def load_clips(settings: FeatureSettings) -> tuple[Floats, str]:
    """Return float32 [CLIPS, samples] and what they are: real where there are recordings, else synthetic."""
    source = Recordings(DATA / "gsc_v2_test", settings, per_round=(4, 4))
    if source.folder.is_dir():
        clips = [clip for label in source.labels() for clip in source.clips_for_round(1, label)]
        return source.load(clips[:CLIPS]), f"{CLIPS} clips of {source.folder}"
    rng = np.random.default_rng(0)
    level = np.repeat(rng.uniform(0.001, 0.2, (CLIPS, 20)), settings.clip_samples // 20, axis=1)
    noise = rng.standard_normal((CLIPS, settings.clip_samples))
    return (level[:, : settings.clip_samples] * noise).astype(np.float32), f"{CLIPS} synthetic clips"


def reference(clip: Floats, settings: FeatureSettings) -> NDArray[np.float64]:
    """Compute the same features with python_speech_features."""
    from python_speech_features import mfcc

    features: NDArray[np.float64] = mfcc(
        clip,
        samplerate=settings.sample_rate_hz,
        winlen=settings.window_s,
        winstep=settings.hop_s,
        numcep=settings.coefficients,
        nfilt=settings.mel_bands,
        nfft=settings.fft_size,
        lowfreq=settings.low_hz,
        highfreq=settings.high_hz,
        preemph=settings.pre_emphasis,
        ceplifter=settings.lifter,
        appendEnergy=settings.log_energy,
    )
    return features


def compare(settings: FeatureSettings, clips: Floats, repetitions: int) -> Comparison:
    """Measure one preset on float32 [clips, samples]."""
    mfcc = Mfcc(settings)
    difference = np.abs(mfcc(clips) - np.stack([reference(clip, settings) for clip in clips])).max()
    ways: dict[str, Callable[[], object]] = {
        "reference": lambda: [reference(clip, settings) for clip in clips],
        "single": lambda: [mfcc(clip) for clip in clips],
        "batch": lambda: mfcc(clips),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repetitions):
        for name, way in ways.items():
            start = time.thread_time()
            way()
            times[name].append((time.thread_time() - start) / len(clips) * 1e6)
    median = {name: statistics.median(values) for name, values in times.items()}
    return Comparison(
        reference_us=median["reference"],
        single_us=median["single"],
        batch_us=median["batch"],
        speedup_single=median["reference"] / median["single"],
        speedup_batch=median["reference"] / median["batch"],
        max_abs_difference=float(difference),
    )


def main() -> None:
    """Print the table and, with ``--json``, one JSON object as the last line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=21, metavar="N", help="of each measurement (21)")
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    options = parser.parse_args()
    results: dict[str, Comparison] = {}
    for name, settings in PRESETS.items():
        clips, origin = load_clips(settings)
        if not results:
            print(f"{origin}; medians of {options.repetitions} repetitions, microseconds per clip\n")
            print(f"{'preset':<11} {'reference':>10} {'one clip':>14} {f'{CLIPS} at once':>16} {'difference':>11}")
        results[name] = result = compare(settings, clips, options.repetitions)
        single = f"{result.single_us:.0f} ({result.speedup_single:.1f}x)"
        batch = f"{result.batch_us:.0f} ({result.speedup_batch:.1f}x)"
        print(f"{name:<11} {result.reference_us:>10.0f} {single:>14} {batch:>16} {result.max_abs_difference:>11.1e}")
    if options.json:
        summary = {
            "speedup": min(result.speedup_batch for result in results.values()),
            "max_abs_difference": max(result.max_abs_difference for result in results.values()),
            "presets": {name: asdict(result) for name, result in results.items()},
        }
        print(json.dumps(summary))


if __name__ == "__main__":
    main()
