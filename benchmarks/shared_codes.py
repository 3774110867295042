"""Could devices agree on a new sound by a code, which nobody reads before three of them have it?

A device with the sound takes the signs of random projections, the same for all, of its prototype's whitened direction
(Charikar 2002), in several tables. Ten words are new, and six strangers' devices have four takes of each. A word is
agreed on where three of its devices share a code that no other word's device has, in any table. It is mixed where
devices of another word share a code of three or more.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.command import BenchmarkError, Command, said
from benchmarks.takes import Takes
from fleet_protocol.numbers.arrays import Doubles

_NEW, _DEVICES, _TAKES, _AGREE = 10, 6, 4, 3
_DRAWS = 200


def outcome(codes: NDArray[np.int64]) -> tuple[float, float]:
    """Return which shares of the words are agreed on and mixed; ``codes``: [tables, words, devices]."""
    agreed, mixed = np.zeros((2, codes.shape[1]), np.bool_)
    for table in codes:
        for code, count in zip(*np.unique(table, return_counts=True), strict=True):
            if count >= _AGREE:
                whose = (table == code).any(axis=1)
                (agreed if whose.sum() == 1 else mixed)[whose] = True
    return float(agreed.mean()), float(mixed.mean())


def prototypes(folder: Path, front_end: str, rng: np.random.Generator) -> list[Doubles]:
    """Return the whitened directions of all speakers' prototypes, by word, float64 [speakers, numbers]."""
    read, found = Takes.read(folder, front_end), []
    for word in np.unique(read.words):
        takes = [np.flatnonzero((read.words == word) & (read.speakers == one)) for one in np.unique(read.speakers)]
        means = [read.embeddings[rng.permutation(rows)[:_TAKES]].mean(axis=0) for rows in takes if len(rows) >= _TAKES]
        if len(means) >= _DEVICES:
            found.append(read.statistics.whitened(np.asarray(means, np.float32)))
    if len(found) < _NEW:
        raise BenchmarkError(f"{folder}: {_NEW} words by {_DEVICES} people are needed, {_TAKES} takes each")
    return found


def work(chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """Print a line for each length and number of codes; return the figures."""
    rng, figures = np.random.default_rng(chosen.seed), []
    words = prototypes(chosen.data, chosen.front_end, rng)
    for bits in chosen.bits:
        for tables in chosen.tables:
            planes = rng.normal(size=(tables, words[0].shape[1], bits))
            codes = [(np.einsum("nd,tdb->tnb", one, planes) > 0) @ (1 << np.arange(bits)) for one in words]
            drawn = []
            for _ in range(_DRAWS):
                new = [codes[word] for word in rng.choice(len(words), _NEW, replace=False)]
                rows = [one[:, rng.choice(one.shape[1], _DEVICES, replace=False)] for one in new]
                drawn.append(outcome(np.stack(rows, axis=1)))
            agreed, mixed = 100 * np.mean(drawn, axis=0)
            line = {"bits": bits, "tables": tables, "agreed %": round(agreed, 1), "mixed %": round(mixed, 1)}
            figures.append(said(line))
    return figures


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = Command("benchmarks.shared_codes", __doc__)
    about = "recordings <label>/<speaker>_*"
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER", help=about)
    parser.add_argument("--front-end", default="words", metavar="NAME", help="words, base, ... (default: %(default)s)")
    parser.add_argument("--bits", nargs="+", type=int, default=[8, 12, 16, 20], metavar="N", help="of a code")
    parser.add_argument("--tables", nargs="+", type=int, default=[1, 8, 64], metavar="N", help="codes of a device")
    parser.add_argument("--seed", type=int, default=0, help="of the draws (default: %(default)s)")
    return parser.run(work, arguments)


if __name__ == "__main__":
    sys.exit(main())
