"""`python -m benchmarks.listening.picture RESULT.. -o PICTURE`: detection-error curves of what the benchmarks printed.

Each RESULT is a file with the output of `benchmarks.listening --json` or `benchmarks.listening.alternatives --json`.
One panel for each ratio of levels: false rejects against false accepts per hour.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path

_RATES = (0.5, 500.0)


def results(files: Iterable[Path]) -> list[tuple[str, dict[float, list[dict[str, float]]]]]:
    """Return of every detector in the files its name, and its curve at every ratio."""
    found = []
    for file in files:
        document = json.loads(file.read_text().splitlines()[-1])
        for one in [*document.get("front_ends", ()), *document.get("packages", ())]:
            name = one.get("package") or one["front_end"]
            if one.get("unseen_percent") and one.get("front_end") not in ("cnn2", "dscnn3"):
                name += f", {one['unseen_percent']:.0f} % unseen"
            found.append((name, {ratio["snr_db"]: ratio["curve"] for ratio in one["snr"]}))
    return found


def steps(points: Iterable[dict[str, float]]) -> list[tuple[float, float]]:
    """Return (false accepts per hour, fewest false rejects in % at no more than these), in order of the first."""
    line: list[tuple[float, float]] = []
    for point in sorted(points, key=lambda one: (one["false_accepts_per_hour"], one["false_reject_percent"])):
        if not line or point["false_reject_percent"] < line[-1][1]:
            line.append((max(point["false_accepts_per_hour"], _RATES[0]), point["false_reject_percent"]))
    return line


def draw(files: Iterable[Path], output: Path) -> None:
    """Draw the curves of all files into one picture."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    found = results(files)
    ratios = list(found[0][1])
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "auricle", "font.size": 9}):
        figure = Figure(figsize=(9, 3.2), layout="constrained")
        for panel, snr_db in zip(figure.subplots(1, len(ratios), sharey=True), ratios, strict=True):
            for name, curves in found:
                line = steps(curves[snr_db])
                panel.plot([x for x, _ in line], [y for _, y in line], drawstyle="steps-post", label=name)
            panel.set(xscale="log", xlim=_RATES, ylim=(0, 100), title=f"{snr_db:g} dB", xlabel="false accepts per hour")
            panel.grid(alpha=0.3)
        figure.axes[0].set_ylabel("false rejects, %")
        figure.axes[0].legend(frameon=False, fontsize=7)
        output.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(output, metadata={"Date": None} if output.suffix == ".svg" else None)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.listening.picture", description=__doc__)
    parser.add_argument("results", nargs="+", type=Path, metavar="RESULT")
    parser.add_argument("-o", "--output", type=Path, required=True, help="an .svg or .png file")
    options = parser.parse_args()
    draw(options.results, options.output)
