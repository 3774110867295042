"""`python -m benchmarks.listening`: teach a device some words, and let it listen to streams of them and of others.

Words that it was not taught with, by speakers that it never heard, lie among other words in backgrounds that it never
heard, at 20, 10 and 5 dB. Defaults were chosen on one half of these speakers and backgrounds (`--tuning`); figures are
of the other. Backgrounds: Speech Commands' noise recordings, and sounds of UrbanSound8K that go on and on.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bundles import ARCHITECTURES, ROOT, build_bundles, find_bundles
from benchmarks.listening.idle import idle_mb, import_s
from benchmarks.listening.listening import Listened, decide, listen
from benchmarks.listening.material import KNOWN, Half, Material, load_material
from benchmarks.listening.scoring import Score
from benchmarks.listening.streams import Stream, make_stream
from benchmarks.listening.training import taught_device
from edge_client.config.sections import DetectorConfig
from edge_client.daemon.listening_loop import load_listening
from fleet_protocol.bundle import read_bundle

SNRS_DB = (20.0, 10.0, 5.0)
THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
KINDS = ("background", "other word", "confusion", "repeat")


def streams_of(half: Half, material: Material, minutes: float, seed: int) -> dict[float, Stream]:
    """Return a stream for every ratio."""
    return {
        snr_db: make_stream(half, material.settings, snr_db, minutes, np.random.default_rng([seed, int(snr_db)]))
        for snr_db in SNRS_DB
    }


def measure(name: str, bundle: Path, material: Material, streams: dict[float, Stream]) -> dict[str, Any]:
    """Teach a device with this bundle, let it listen, print its lines, and return its figures."""
    with tempfile.TemporaryDirectory() as folder:
        config = taught_device(Path(folder), bundle, material)
        memory = idle_mb(Path(folder) / "edge.toml")
        loaded = load_listening(config)
    ratios, spent, seconds = [], 0.0, 0.0
    for snr_db, stream in streams.items():
        heard = listen(loaded, stream, config.detector)
        curve = {
            threshold: decide(heard, loaded[1].names, stream, dataclasses.replace(config.detector, threshold=threshold))
            for threshold in THRESHOLDS
        }
        ratios.append(_figures(snr_db, heard, curve))
        print(_line(name, snr_db, heard.score), flush=True)
        spent, seconds = spent + heard.seconds, seconds + heard.score.hours * 3600
    return {
        "architecture": name,
        "clips_per_label": len(material.training) // len(KNOWN),
        "real_time_factor": round(spent / seconds, 5),
        "idle_mb": round(memory, 1),
        "snr": ratios,
    }


def _figures(snr_db: float, heard: Listened, curve: dict[float, Score]) -> dict[str, Any]:
    score = heard.score
    return {
        "snr_db": snr_db,
        "minutes": round(score.hours * 60, 1),
        "false_reject_percent": round(100 * score.false_rejects, 1),
        "false_reject_percent_by_label": {
            label: round(100 * score.rejected[label] / max(1, score.said[label]), 1) for label in KNOWN
        },
        "false_accepts_per_hour": round(score.false_accepts_per_hour, 1),
        "false_accepts_per_hour_by_kind": {kind: round(score.per_hour(kind), 1) for kind in KINDS},
        "unknown_per_hour": round(heard.unknown / score.hours, 1),
        "curve": [
            {
                "threshold": threshold,
                "false_accepts_per_hour": round(one.false_accepts_per_hour, 1),
                "false_reject_percent": round(100 * one.false_rejects, 1),
            }
            for threshold, one in curve.items()
        ],
    }


def _line(name: str, snr_db: float, score: Score) -> str:
    by_label = "  ".join(f"{100 * score.rejected[label] / max(1, score.said[label]):5.1f}" for label in KNOWN)
    by_kind = "  ".join(f"{score.per_hour(kind):7.1f}" for kind in KINDS)
    return (
        f"{name:<8}{snr_db:>4.0f} dB {100 * score.false_rejects:>6.1f}  {by_label}   "
        f"{score.false_accepts_per_hour:>7.1f}  {by_kind}"
    )


def _print_curves(results: Sequence[dict[str, Any]]) -> None:
    print("\noperating curve: false accepts per hour / false rejects in % at each threshold")
    print(f"{'':<16}" + "".join(f"{threshold:>14}" for threshold in THRESHOLDS))
    for result in results:
        for ratio in result["snr"]:
            points = "".join(
                f"{point['false_accepts_per_hour']:>8.1f} / {point['false_reject_percent']:>3.0f}"
                for point in ratio["curve"]
            )
            print(f"{result['architecture']:<8}{ratio['snr_db']:>4.0f} dB " + points)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.listening", description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("AURICLE_DATA", ROOT.parent / "shared" / "data"))
    parser.add_argument("--architectures", nargs="+", default=["cnn2", "dscnn3"], choices=ARCHITECTURES)
    parser.add_argument("--bundles", type=Path, metavar="DIR", help="take bundles from here instead of building them")
    parser.add_argument("--minutes", type=float, default=60.0, help="longest stream (60; words end it before)")
    parser.add_argument("--tuning", action="store_true", help="listen to the half on which defaults were chosen")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.bundles is None:
            build_bundles(Path(folder), options.architectures)
        bundles = find_bundles(options.bundles or Path(folder), options.architectures)
        settings = read_bundle(next(iter(bundles.values()))).manifest.feature_settings
        material = load_material(options.data, settings, options.seed)
        streams = streams_of(
            material.tuning if options.tuning else material.report, material, options.minutes, options.seed
        )
        _print_head(material, streams)
        results = [measure(name, bundle, material, streams) for name, bundle in bundles.items()]
    _print_curves(results)
    imported = round(import_s(), 3)
    for result in results:
        print(
            f"\n{result['architecture']}: real-time factor {result['real_time_factor']}, "
            f"a process that listens holds {result['idle_mb']} MB",
            end="",
        )
    print(f"\nimport of edge_client: {imported} s")
    if options.json:
        print(json.dumps({"architectures": results, "import_s": imported}))


def _print_head(material: Material, streams: dict[float, Stream]) -> None:
    minutes = sum(len(stream.samples) for stream in streams.values()) / material.settings.sample_rate_hz / 60
    words = [word for stream in streams.values() for word in stream.words]
    known = sum(word.label is not None for word in words)
    print(
        f"taught with {len(material.training) // len(KNOWN)} clips of each of {', '.join(KNOWN)}; "
        f"{minutes:.0f} minutes of streams with {known} known and {len(words) - known} others\n{DetectorConfig()}\n"
    )
    print(f"{'':<16}false rejects, %{'':<{6 * len(KNOWN) + 1}}false accepts per hour")
    print(f"{'':<16}{'all':>6}  " + "  ".join(f"{label:>5}" for label in KNOWN) + f"   {'all':>7}  " + "  ".join(
        f"{kind.replace(' word', 's'):>7.7}" for kind in KINDS))  # fmt: skip


if __name__ == "__main__":
    main()
