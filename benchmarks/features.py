"""Features: how much faster than python_speech_features, and how equal, preset by preset.

Both compute the same clips (real ones where there are recordings), one call per clip; ours also all in one call, as a
device computes a round's. Repetitions take turns, and medians of the thread's processor time are compared. NumPy's FFT
of as many frames is measured alone as well, since it is part of either time.

How long the reference takes depends on whether the allocator keeps the pages of its temporary arrays. Here it is led
to keep them, as it may in a process that has handled large arrays, which favours the reference: ``speedup`` is the
worst preset's so measured with all clips in one call, ``speedup_single`` with a call per clip. ``speedup_fresh``
compares both in fresh processes, as a script that computes nothing else finds them: there the reference may get new
pages at every clip.

The second table has every front end that ships: a clip alone, and a window of a stream, 0.25 s after the one before.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks.bundles import data_folder
from edge_client.audio.recordings import Recordings
from edge_client.features.front_end import open_front_end
from edge_client.features.mfcc import Mfcc
from edge_client.features.sliding import open_sliding
from fleet_protocol.arrays import Doubles, Floats
from fleet_protocol.feature_settings import CEPSTRA, PRESETS, FeatureSettings, MfccSettings
from model_export.front_ends import PRECISIONS, SHIPPED, find_front_end

DATA = data_folder()
CLIPS = 32
HOP_S = 0.25
# glibc keeps pages of freed arrays once a block of this size was freed; above 32 MiB it would not.
KEPT_BYTES = 24 << 20


@dataclass(frozen=True)
class Comparison:
    """One preset's figures; times in microseconds per clip."""

    reference_us: float
    single_us: float
    batch_us: float
    fft_us: float
    fresh_reference_us: float
    fresh_batch_us: float
    speedup_single: float
    speedup_batch: float
    speedup_fresh: float
    max_abs_difference: float


@dataclass(frozen=True)
class FrontEndTime:
    """One front end's figures.

    Attributes:
        clip_us: microseconds of a clip alone.
        window_us: microseconds of a window of a stream, :data:`HOP_S` after the one before.
        window_ratio: the same against the cepstra of ``gudur``.
    """

    clip_us: float
    window_us: float
    window_ratio: float


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


def reference(clip: Floats, settings: MfccSettings) -> Doubles:
    """Compute the same features with python_speech_features."""
    from python_speech_features import mfcc

    features: Doubles = mfcc(
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


def ways(settings: MfccSettings, clips: Floats) -> dict[str, Callable[[], object]]:
    """Return what is timed, by name."""
    mfcc = Mfcc(settings)
    frames = np.random.default_rng(0).standard_normal((settings.frames, settings.fft_size))
    return {
        "reference": lambda: [reference(clip, settings) for clip in clips],
        "single": lambda: [mfcc(clip) for clip in clips],
        "batch": lambda: mfcc(clips),
        "fft": lambda: [np.fft.rfft(frames).shape for _ in clips],
    }


def measure(timed: dict[str, Callable[[], object]], repetitions: int) -> dict[str, float]:
    """Return the median microseconds per clip of each; they take turns."""
    times: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(repetitions):
        for name, way in timed.items():
            start = time.thread_time()
            way()
            times[name].append((time.thread_time() - start) / CLIPS * 1e6)
    return {name: statistics.median(values) for name, values in times.items()}


def measure_alone(preset: str, way: str, repetitions: int) -> float:
    """Measure one way in this process, which has done nothing else before; its first run does not count."""
    settings = CEPSTRA[preset]
    timed = {way: ways(settings, load_clips(settings)[0])[way]}
    measure(timed, 1)
    return measure(timed, repetitions)[way]


def in_fresh_process(preset: str, way: str, repetitions: int) -> float:
    """Measure one way in a process of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure_alone, preset, way, repetitions).result()


def compare(preset: str, clips: Floats, repetitions: int) -> Comparison:
    """Measure one preset on float32 [CLIPS, samples]."""
    settings = CEPSTRA[preset]
    difference = np.abs(Mfcc(settings)(clips) - np.stack([reference(clip, settings) for clip in clips])).max()
    median = measure(ways(settings, clips), repetitions)
    fresh = {way: in_fresh_process(preset, way, repetitions) for way in ("reference", "batch")}
    return Comparison(
        reference_us=median["reference"],
        single_us=median["single"],
        batch_us=median["batch"],
        fft_us=median["fft"],
        fresh_reference_us=fresh["reference"],
        fresh_batch_us=fresh["batch"],
        speedup_single=median["reference"] / median["single"],
        speedup_batch=median["reference"] / median["batch"],
        speedup_fresh=fresh["reference"] / fresh["batch"],
        max_abs_difference=float(difference),
    )


def time_front_ends(repetitions: int) -> dict[str, FrontEndTime]:
    """Measure every preset and every network that ships, by name; all take turns."""
    settings: dict[str, FeatureSettings] = dict(PRESETS)
    settings |= {
        f"{name} {precision}": find_front_end(name, precision).settings for name in SHIPPED for precision in PRECISIONS
    }
    timed: dict[str, Callable[[], object]] = {}
    for name, chosen in settings.items():
        timed |= {f"{name} {way}": work for way, work in _clips_and_windows(chosen).items()}
    measure(timed, 1)
    medians = measure(timed, repetitions)
    base = medians["gudur window"]
    return {
        name: FrontEndTime(medians[f"{name} clip"], medians[f"{name} window"], medians[f"{name} window"] / base)
        for name in settings
    }


def _clips_and_windows(settings: FeatureSettings) -> dict[str, Callable[[], object]]:
    clips = load_clips(settings)[0]
    front_end, sliding = open_front_end(settings), open_sliding(settings, round(HOP_S / settings.hop_s))
    return {
        "clip": lambda: [front_end(clip) for clip in clips],
        "window": lambda: [sliding(clip) for clip in clips],
    }


def main() -> None:
    """Print the tables and, with ``--json``, one JSON object as the last line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=21, metavar="N", help="of each measurement (21)")
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    options = parser.parse_args()
    np.empty(KEPT_BYTES, np.uint8)
    results: dict[str, Comparison] = {}
    for preset, settings in CEPSTRA.items():
        clips, origin = load_clips(settings)
        if not results:
            print(f"{origin}; medians of {options.repetitions} repetitions, microseconds per clip\n")
            print(
                f"{'preset':<11} {'reference':>10} {'one clip':>13} {f'{CLIPS} at once':>13} {'FFT alone':>10}", end=""
            )
            print(f" {'fresh processes':>22} {'difference':>11}")
        results[preset] = result = compare(preset, clips, options.repetitions)
        single = f"{result.single_us:.0f} ({result.speedup_single:.1f}x)"
        batch = f"{result.batch_us:.0f} ({result.speedup_batch:.1f}x)"
        fresh = f"{result.fresh_reference_us:.0f} to {result.fresh_batch_us:.0f} ({result.speedup_fresh:.1f}x)"
        print(f"{preset:<11} {result.reference_us:>10.0f} {single:>13} {batch:>13} {result.fft_us:>10.0f}", end="")
        print(f" {fresh:>22} {result.max_abs_difference:>11.1e}")
    front_ends = time_front_ends(options.repetitions)
    print(f"\n{'front end':<14} {'clip, us':>10} {f'window every {HOP_S} s, us':>26} {'of gudur':>9}")
    for name, front_end in front_ends.items():
        print(f"{name:<14} {front_end.clip_us:>10.0f} {front_end.window_us:>26.0f} {front_end.window_ratio:>8.1f}x")
    if options.json:
        summary = {
            "speedup": min(result.speedup_batch for result in results.values()),
            "speedup_single": min(result.speedup_single for result in results.values()),
            "speedup_fresh": min(result.speedup_fresh for result in results.values()),
            "max_abs_difference": max(result.max_abs_difference for result in results.values()),
            "presets": {name: asdict(result) for name, result in results.items()},
            "front_ends": {name: asdict(front_end) for name, front_end in front_ends.items()},
        }
        print(json.dumps(summary))


if __name__ == "__main__":
    main()
