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
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import Command, add_knows, said
from benchmarks.takes import Takes
from model_export.front_ends import PRECISIONS
from model_export.pretraining.evaluation import FewShot, few_shot

_MEAN = "mean"


def measure(folder: Path, takes: Takes, seed: int, knows: Mapping[str, str]) -> list[FewShot]:
    """Measure a front end on a folder's words; ``knows``: by label, which sound it is that the front end knows."""
    found = few_shot(folder.name, takes.embeddings, takes.words, takes.speakers, takes.statistics, seed)
    return [_without_takes(folder.name, takes, knows), *found] if knows else found


def _without_takes(corpus: str, takes: Takes, knows: Mapping[str, str]) -> FewShot:
    """Return how many of all clips are recognised by what is built into the front end."""
    chosen = np.isin(takes.words, list(knows))
    logits = takes.statistics.known.logits(takes.embeddings[chosen], tuple(knows.values()))
    right = np.array(list(knows))[logits.argmax(axis=1)] == takes.words[chosen]
    return FewShot(corpus, 0, 0, len(knows), None, round(100 * float(right.mean()), 1))


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
        found = [
            case
            for folder in chosen.data
            for case in measure(folder, Takes.read(folder, name, chosen.precision), chosen.seed, dict(chosen.knows))
        ]
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
