"""What a mean embedding (prototype) tells about its clips and speakers, and what Gaussian noise on it costs.

The attacker has the front end, the clips of all speakers but the victims, and recordings of a victim or one clip in
question. Victims are the speakers of the official test set, whom no pretraining heard. It attacks the means that
`edge_client/learning/prototype_noise.py` makes. A figure for words never heard needs a network that `stop` and `go`
were left out of (`auricle-export pretrain --leave-out-words`).
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.command import ROOT, Command, data_folder, said
from benchmarks.listening.front_ends import front_ends
from benchmarks.prototype_privacy import identification, membership, recognition
from benchmarks.prototype_privacy.attacker import DELTA, epsilon, greatest_area
from benchmarks.prototype_privacy.corpus import Corpus, read
from benchmarks.prototype_privacy.membership import Sender

NOISES = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
CLIP_NORM = 10.0
PARTS = ("membership", "identification", "recognition")
_DEVICE_CLIPS, _RELEASES = (5, 20), 10


def parser() -> Command:
    """Return the command line's parser."""
    command = Command("benchmarks.prototype_privacy", __doc__)
    command.add_argument("--front-end", default="base", metavar="NAME", help="base (default), or a FILE.frontend")
    command.add_argument(
        "--noise",
        type=float,
        nargs="+",
        default=list(NOISES),
        metavar="S",
        help="noise multipliers for one clip (default: %(default)s)",
    )
    command.add_argument("--clip-norm", type=float, default=CLIP_NORM, help="C of the noise (default: %(default)s)")
    command.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS, help="what to measure (all)")
    command.add_argument("--seeds", type=int, default=5, help="of the attacks (default: %(default)s)")
    command.add_argument("--trials", type=int, default=100, help="means per seed of memberships (default: %(default)s)")
    command.add_argument("--fleets", type=int, default=10, help="seeds of recognition (default: %(default)s)")
    command.add_argument(
        "--seed", type=int, default=0, help="the first of both (default: 0); 200 to 204 were used to choose"
    )
    return command


def accounts(noises: Sequence[float]) -> list[dict[str, Any]]:
    """Return what every noise multiplier guarantees: for one clip, for all clips of a device, for several uploads."""
    found = []
    for noise in (noise for noise in noises if noise):
        of_all = {f"epsilon_all_{clips}_clips": round(epsilon(noise / clips), 2) for clips in _DEVICE_CLIPS}
        repeated = {f"epsilon_{_RELEASES}_uploads": round(epsilon(noise, _RELEASES), 2)}
        once = {"noise": noise, "delta": DELTA, "epsilon": round(epsilon(noise), 2)}
        found.append(once | repeated | of_all | {"area_at_most": round(greatest_area(noise), 3)})
    return found


def _rows(corpus: Corpus, bundle: Path, chosen: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield part and figures of every measurement that was chosen."""
    last = chosen.seed + chosen.seeds
    for noise in chosen.noise if {"membership", "identification"} & set(chosen.parts) else ():
        sender = Sender(corpus, chosen.clip_norm, noise)
        if "membership" in chosen.parts:
            for case in membership.CASES:
                yield "membership", membership.measure(sender, case, chosen.trials, range(chosen.seed, last))
        if "identification" in chosen.parts:
            for deal in identification.CASES:
                seeds = range(chosen.seed, last + 3 * chosen.seeds)
                yield "identification", identification.measure(sender, deal, seeds)
    if "recognition" in chosen.parts:
        fleets = range(chosen.seed, chosen.seed + chosen.fleets)
        for row in recognition.measure(corpus, bundle, chosen.clip_norm, chosen.noise, fleets):
            yield "recognition", row


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""

    def work(chosen: argparse.Namespace) -> object:
        build = ROOT / "build" / "prototype-privacy" / re.sub(r"[^A-Za-z0-9.]", "_", chosen.front_end)
        bundle = front_ends([chosen.front_end], build, None)[0].bundle
        found: dict[str, list[dict[str, Any]]] = {}
        for part, row in _rows(read(data_folder(), bundle), bundle, chosen):
            said({"part": part} | row)
            found.setdefault(part, []).append(row)
        settings = {"front_end": Path(chosen.front_end).stem, "clip_norm": chosen.clip_norm}
        return {**settings, "accounts": accounts(chosen.noise), **found}

    return parser().run(work, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
