"""How well a front end recognises words that it never heard, each known from a few takes.

`--data` names any folder of recordings ``<label>/<speaker>_*``, so a language of your own can be measured. Every word
is taught by some takes of some speakers. Other takes of theirs, and takes by speakers who taught no word, are
recognised by the nearest prototype, in the embedding whitened by what the front end's file knows of words. Every
figure is a mean of 20 draws, in per cent.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.command import BenchmarkError, Command, add_knows, said
from edge_client.features.front_end import open_front_end
from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.numbers.arrays import Floats
from fleet_protocol.numbers.embedding_statistics import EmbeddingStatistics, Scatter
from fleet_protocol.numbers.joint_statistics import unpack_statistics
from model_export.front_ends import PRECISIONS, find_front_end
from model_export.pretraining.corpus import NOISE, read_features
from model_export.pretraining.evaluation import FewShot, few_shot

_MEAN = "mean"


@dataclass(frozen=True)
class Ear:
    """A front end, and what is known of words behind it."""

    name: str
    settings: FeatureSettings
    statistics: Scatter


def _open_ear(name: str, precision: str) -> Ear:
    """Find a front end. Raises AuricleError: there is none of this name, or it cannot be read."""
    found = find_front_end(name, precision)
    statistics = unpack_statistics(found.statistics)
    if statistics is None:
        raise BenchmarkError(f"{name} is no embedding: words cannot be told from few takes by their prototypes")
    return Ear(name, found.settings, statistics)


def measure(ear: Ear, folder: Path, seed: int, knows: Sequence[tuple[str, str]] = ()) -> list[FewShot]:
    """Measure a front end on a folder's words; ``knows``: labels, and which sounds they are that it knows."""
    front_end = open_front_end(ear.settings)
    features, words, speakers = read_features(folder, ear.settings, front_end)
    spoken = words != NOISE
    embeddings = features.reshape(len(features), -1)[spoken]
    found = few_shot(folder.name, embeddings, words[spoken], speakers[spoken], ear.statistics, seed)
    return [*_without_takes(ear, folder.name, embeddings, words[spoken], dict(knows)), *found]


def _without_takes(
    ear: Ear, corpus: str, embeddings: Floats, words: NDArray[np.str_], knows: Mapping[str, str]
) -> list[FewShot]:
    """Return how many of all clips are recognised by what is built into the front end."""
    known = ear.statistics.known if isinstance(ear.statistics, EmbeddingStatistics) else None
    if not knows or known is None:
        return []
    chosen = np.isin(words, list(knows))
    logits = known.logits(embeddings[chosen], tuple(knows.values()))
    right = np.array(list(knows))[logits.argmax(axis=1)] == words[chosen]
    return [FewShot(corpus, 0, 0, len(knows), None, round(100 * float(right.mean()), 1))]


def means(found: list[FewShot], folders: int) -> list[FewShot]:
    """Return the means over so many folders, of the cases that all of them have."""
    results = []
    for key in dict.fromkeys((case.takes, case.speakers) for case in found):
        cases = [case for case in found if (case.takes, case.speakers) == key]
        if len(cases) == folders:
            same, other = (_mean([getattr(case, who) for case in cases]) for who in ("same_speaker", "other_speakers"))
            results.append(FewShot(_MEAN, *key, round(np.mean([case.ways for case in cases])), same, other))
    return results


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(float(np.mean(known)), 1) if len(known) == len(values) else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = Command("benchmarks.few_shot", __doc__)
    about = "recordings <label>/<speaker>_*; may be repeated"
    parser.add_argument("--data", type=Path, required=True, action="append", metavar="FOLDER", help=about)
    known = "words, base, ... or FILE.frontend (default: base)"
    parser.add_argument("--front-end", nargs="+", default=["base"], metavar="NAME", help=known)
    parser.add_argument("--precision", default="float32", choices=PRECISIONS, help="of networks (default: float32)")
    add_knows(parser)
    parser.add_argument("--seed", type=int, default=0, help="of the draws (default: %(default)s)")
    return parser.run(work, arguments)


def work(chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """Print a line for each case, and for the means over several folders; return the figures of the cases."""
    rows = []
    for name in chosen.front_end:
        ear = _open_ear(name, chosen.precision)
        found = [case for folder in chosen.data for case in measure(ear, folder, chosen.seed, chosen.knows)]
        for case in found:
            row = {"front_end": name, "data": case.corpus, **dataclasses.asdict(case)}
            del row["corpus"]
            rows.append(said(row))
        if len(chosen.data) > 1:
            for case in means(found, len(chosen.data)):
                said({"front_end": name, **dataclasses.asdict(case)})
    return rows


if __name__ == "__main__":
    sys.exit(main())
