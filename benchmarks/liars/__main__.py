"""What liars in a fleet of ten do to the others: `python -m benchmarks.liars [--json]`.

Two rounds of `prototypes` on the bundle `words`. Devices 0 and 1 teach `left`, 4 and 5 `go` a round later, 6 alone
`right`. The last one or three lie, in one of four ways. Two honest devices then hear words by other people.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import Command, recordings, said
from benchmarks.liars import groups
from benchmarks.liars.corpus import LIE, OWNERS, PLANTED, PUBLIC, WAYS, Corpus
from benchmarks.liars.fleet import LEARNERS, Device, Fleet
from benchmarks.listening.material import Word
from benchmarks.listening.measurement import Listened, hits
from edge_client.daemon.listening_loop import load_listening
from edge_client.detection.detector import Loaded
from edge_client.detection.thresholds import threshold_of

Figures = dict[str, float]


def judge(
    device: Device, classes: Mapping[str, str], words: Sequence[Word], hear: Callable[[Loaded], Listened]
) -> Figures:
    """Return what a device hears of a stream; nan: not its concern. ``classes`` says which words they really are."""
    loaded, config = load_listening(device.config), device.config.detector
    slots, names = loaded.label_map.slots, (*PUBLIC, *OWNERS)
    meant = {one.name: one.name if one.name in names else classes.get(str(one.class_id), LIE) for one in slots}
    listened = hear(loaded)
    limits = np.array([threshold_of(label, config, loaded.tails) for label in listened.labels], np.float32)
    events = [dataclasses.replace(event, label=meant[event.label]) for event in listened.at(limits)]
    found, wrong = hits(words, events)

    def heard(labels: Container[str | None]) -> float:
        among = [number in found for number, word in enumerate(words) if word.label in labels]
        return 100 * sum(among) / len(among) if among else np.nan

    own = {word for word, owners in OWNERS.items() if device.number in owners}
    of_others = {word for word in OWNERS if word not in own}
    return {
        "false alarms/h": wrong / (listened.seconds / 3600),
        "planted heard %": heard([LIE + word for word in PLANTED]),
        "slots lost": sum(meant[label].startswith(LIE) for label in loaded.label_map.labels),
        "own heard %": heard(own),
        "of two others heard %": heard({word for word in of_others if len(OWNERS[word]) > 1}),
        "of one other heard %": heard({word for word in of_others if len(OWNERS[word]) == 1}),
    }


class Benchmark:
    """The recordings, and a stream that devices of many fleets hear."""

    def __init__(self, cache: Path) -> None:
        """Make the stream; ``cache``: file that keeps embeddings."""
        cache.parent.mkdir(parents=True, exist_ok=True)
        self._cache, self._corpus = cache, Corpus(recordings("gsc_v2_test"))
        self._public_set, self._stream = self._corpus.public_set(), self._corpus.stream()

    def fleet(self, way: str, liars: int, seed: int) -> Figures:
        """Play a fleet's rounds; return its figures, means over devices."""
        with tempfile.TemporaryDirectory() as folder:
            fleet = Fleet(Path(folder), self._cache, self._public_set)
            fleet.play(self._corpus, way, liars, seed)
            rows = [judge(fleet.devices[number], fleet.words, *self._stream) for number in LEARNERS]
        return {name: float(np.nanmean([row[name] for row in rows])) for name in rows[0]}


def work(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Play fleets of each kind; print a line for each kind, and return it with the figures of each fleet."""
    if options.private:
        return groups.work(options)
    benchmark, found = Benchmark(options.cache), []
    for way in options.ways:
        for liars in (0,) if way == "none" else options.liars:
            fleets = [benchmark.fleet(way, liars, seed) for seed in options.seeds]
            means = {name: float(np.mean([one[name] for one in fleets])) for name in fleets[0]}
            found.append(said({"way": way, "liars": liars, **means, "fleets": fleets}))
    return found


def _headline(rows: list[dict[str, Any]]) -> str:
    if "group" in rows[0]:
        return f"private: {max(float(row['points lost, mean']) for row in rows):.1f} points at most, mean of the rounds"
    worst = max(rows, key=lambda row: float(row["false alarms/h"]))
    planted = max(float(row["planted heard %"]) for row in rows)
    alarms = f"{worst['false alarms/h']:.0f} false alarms an hour at most ({worst['way']}, {worst['liars']} of 10)"
    return f"{alarms}, {planted:.0f} % of planted words heard at most"


def main() -> int:
    """Run the benchmark; return the exit status."""
    command = Command("benchmarks.liars", __doc__, _headline)
    command.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS, help="how they lie (all)")
    command.add_argument("--liars", nargs="+", type=int, default=[1, 3], metavar="N", help="of ten devices (1 3)")
    command.add_argument("--seeds", nargs="+", type=int, default=range(5), metavar="N", help="of the fleets (0 to 4)")
    cache = Path("build/liars.safetensors")
    command.add_argument("--cache", type=Path, default=cache, metavar="FILE", help=f"keeps embeddings ({cache})")
    about = "instead liars in private rounds of a hundred devices, in groups of 4, 8 and 16"
    command.add_argument("--private", action="store_true", help=about)
    return command.run(work)


if __name__ == "__main__":
    sys.exit(main())
