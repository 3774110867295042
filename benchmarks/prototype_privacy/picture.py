"""`python -m benchmarks.prototype_privacy.picture RESULT.. -o PICTURE`: what noise costs, and what it hides.

Each RESULT is a file with the output of `benchmarks.prototype_privacy --json`; parts may be spread over several. One
panel for the recognition of a word never heard, one for the attacks, both over the epsilon of one clip.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.pictures import STYLE, run, save

_MOST = 8  # devices
Rows = list[dict[str, Any]]
Line = tuple[str, list[tuple[float, float]]]


def read(files: Iterable[Path]) -> dict[str, Rows]:
    """Return the rows of every part in the files, and of ``accounts``."""
    found: dict[str, Rows] = {}
    for file in files:
        document = json.loads(file.read_text().splitlines()[-1])
        found |= {name: rows for name, rows in document.items() if isinstance(rows, list)}
    return found


def recognised(found: dict[str, Rows]) -> list[Line]:
    """Return the curves of the left panel: of every rule and fleet, (epsilon, recognised %)."""
    return _curves(
        found,
        "recognition",
        "recognised",
        lambda row: f"{row['rule']}, {row['devices']} x {row['clips']} clips" if row["devices"] == _MOST else None,
    )


def attacked(found: dict[str, Rows]) -> list[Line]:
    """Return the curves of the right panel: of some memberships, (epsilon, area under the curve)."""
    names = {
        ("the clip", "same people", 1, 4): "the clip, among 4",
        ("the clip", "others", 20, 20): "the clip, among 20",
        ("other clips of the word", "others", 1, 4): "the speaker of all 4 clips",
        ("other clips of the word", "others", 20, 20): "one of 20 speakers",
    }
    lines = _curves(
        found, "membership", "auc", lambda row: names.get((row["known"], row["outside"], row["speakers"], row["clips"]))
    )
    bound = [(one["epsilon"], one["area_at_most"]) for one in found["accounts"]]
    return [*lines, ("no attack on a clip exceeds", sorted(bound))]


def _curves(
    found: dict[str, Rows], part: str, value: str, name_of: Callable[[dict[str, Any]], str | None]
) -> list[Line]:
    """Return named curves over epsilon; a point without noise comes last, at an infinite one."""
    epsilons = {one["noise"]: one["epsilon"] for one in found["accounts"]} | {0.0: float("inf")}
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in found[part]:
        if name := name_of(row):
            lines.setdefault(name, []).append((epsilons[row["noise"]], row[value]))
    return [(name, sorted(points)) for name, points in lines.items()]


def draw(files: Iterable[Path], output: Path) -> None:
    """Draw both panels into one picture; what holds without noise stands at the right edge."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    found = read(files)
    epsilons = sorted(one["epsilon"] for one in found["accounts"])
    edge = 3 * epsilons[-1]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        for panel, lines in ((left, recognised(found)), (right, attacked(found))):
            for name, points in lines:
                panel.plot([min(x, edge) for x, _ in points], [y for _, y in points], marker=".", label=name)
            panel.set(xscale="log", xlabel="epsilon of one clip, delta = 1e-5")
            panel.set_xticks([*epsilons, edge], [*(f"{x:.2g}" for x in epsilons), "no noise"], minor=False)
            panel.minorticks_off()
            panel.grid(alpha=0.3)
            panel.legend(frameon=False, fontsize=7)
        left.set(ylabel="recognised, %", ylim=(0, 100), title="words never heard, from 8 devices")
        right.set(ylabel="area under the curve", ylim=(0.45, 1.02), title="membership")
        save(figure, output)


if __name__ == "__main__":
    run("benchmarks.prototype_privacy.picture", __doc__, draw)
