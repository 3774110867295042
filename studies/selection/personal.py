"""The table of personal models: what devices of few, more and most people make of the shared model (Xu et al. 2025)."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import Any

from studies.report import Claim, Results, gain, markdown_table, mean_and_spread, verdict
from studies.run import Figures
from studies.selection.runs import ALONE, PERSONAL, SERVER_MODELS, SHARES, START

# Devices by their number of people.
GROUPS = {
    f"{people:.0f} people": tuple(device for device, share in enumerate(SHARES) if share == people)
    for people in (20.0, 40.0, 60.0)
}
# Character error rates of the published devices' groups, means (their table 5, server model 1), and of all ten.
PUBLISHED = {
    "shared model": (18.26, 14.06, 18.72, 17.09),
    "local": (15.69, 12.70, 17.53, 15.16),
    "group balanced": (15.42, 12.62, 17.44, 14.98),
}
FEWER = 12.0
"""By how many per cent published personal models make fewer errors."""
_FIRST = SERVER_MODELS[0]
Errors = Callable[[Figures, tuple[int, ...] | None], float]


def of_key(key: str) -> Errors:
    """Return what takes devices' mean error in % from a run: ``global``, ``personal``, ``listening_own`` ..."""

    def mean(figures: Figures, devices: tuple[int, ...] | None) -> float:
        entries = [entry for entry in figures["devices"] if devices is None or entry["device"] in devices]
        return 100 * (1 - fmean(entry[key] for entry in entries))

    return mean


def _of_start(figures: Figures, devices: tuple[int, ...] | None) -> float:
    accuracies = figures["devices"]
    return 100 * (1 - fmean(accuracies[device] for device in devices or range(len(accuracies))))


def errors(results: Results, name: str, of: Errors, devices: tuple[int, ...] | None = None) -> list[float]:
    """Return a model's mean error on the own held-out clips of devices (None: all), in %, seed by seed."""
    return results.values(name, lambda figures: of(figures, devices))


def personal_table(results: Results) -> str:
    """Return errors of models with and without a fleet, by the devices' people."""
    rows = [
        _row(results, "public only: the start", START, _of_start, _start_strangers),
        _row(results, "alone: the start, and own clips", f"{_FIRST}, local", of_key("alone_own"), _strangers("alone")),
    ]
    for server in SERVER_MODELS:
        rows.append(_row(results, f"{server}: shared model", f"{server}, local", of_key("global"), _shared_strangers))
        for name in (f"{server}, {personal}" for personal in PERSONAL):
            if name not in results.by_name:
                continue
            rows.append(_row(results, name, name, of_key("personal"), _strangers("listening")))
    header = ["model", *GROUPS, "all", "fewer errors than shared, %", "strangers", "published"]
    return (
        "Errors in %, on clips of the devices' own people that were used neither for training nor for model "
        "selection, and on the 60 people whom no device has. Local: fine-tuning on own clips alone; group balanced: "
        "five rounds of every group before it, as the paper's experiment has it; labels: public clips beside, the "
        f"default. Alone is {ALONE.passes} passes, as many as a device has in 50 rounds. A device listens with, and is "
        "judged by, the better one of the shared and the fine-tuned model on a fifth of its clips, held out for that; "
        "the paper judges the fine-tuned one. Published: 20, 40 and 60 people, all.\n\n" + markdown_table(header, rows)
    )


def _row(results: Results, label: str, name: str, of: Errors, strangers: Callable[[Figures], float]) -> list[Any]:
    own = [mean_and_spread(errors(results, name, of, devices)) for devices in (*GROUPS.values(), None)]
    with_fleet = name.startswith(SERVER_MODELS) and "alone" not in label
    personal = with_fleet and not label.endswith("shared model")
    kind = label.partition(": ")[2] or label.rpartition(f"{_FIRST}, ")[2]
    published = " / ".join(f"{value:.1f}" for value in PUBLISHED.get(kind, ())) if label.startswith(_FIRST) else ""
    return [
        label,
        *own,
        f"{fewer(results, name):.0f}" if personal else "",
        mean_and_spread(results.values(name, strangers)),
        published,
    ]


def _strangers(kind: str) -> Callable[[Figures], float]:
    key = f"{kind}_strangers"
    return lambda figures: 100 * (1 - fmean(entry[key] for entry in figures["devices"]))


def _start_strangers(figures: Figures) -> float:
    return 100 * (1 - float(figures["strangers"]))


def _shared_strangers(figures: Figures) -> float:
    return 100 * (1 - float(figures["rounds"][-1]["accuracy"]))


def fewer(results: Results, name: str, devices: tuple[int, ...] | None = None) -> float:
    """Return by how much the mean error of personal models is below the shared model's, in %."""
    before, after = (fmean(errors(results, name, of_key(key), devices)) for key in ("global", "personal"))
    return 100 * (1 - after / before)


def personal_claims(results: Results) -> list[Claim]:
    """Return the claims of personal models, of both shared ones."""
    balanced, local = (
        [f"{server}, {personal}" for server in SERVER_MODELS] for personal in ("group balanced", "local")
    )
    whole = [fewer(results, name) for name in balanced]
    by_group = [fewer(results, balanced[0], devices) for devices in GROUPS.values()]
    few = next(iter(GROUPS.values()))
    pairs = [[errors(results, name, of_key("personal"), few) for name in (local[n], balanced[n])] for n in range(2)]
    better = [fmean(before) > fmean(after) for before, after in pairs]
    return [
        Claim(
            "Personal models make 12 % fewer errors than the shared one (group balanced)",
            "12 %",
            " and ".join(f"{value:.0f} %" for value in whole),
            _as_large(whole, FEWER),
            f"Local fine-tuning: {' and '.join(f'{fewer(results, name):.0f} %' for name in local)} (published: 11).",
        ),
        Claim(
            "Small devices gain most",
            "16, 10 and 7 % fewer errors",
            ", ".join(f"{value:.0f}" for value in by_group),
            "yes" if by_group[0] == max(by_group) else "no",
            f"{_FIRST}, devices of 20, 40 and 60 people.",
        ),
        Claim(
            "On small devices groups are better than local fine-tuning",
            "15.7 → 15.4 % errors",
            "; ".join(f"{fmean(before):.1f} → {fmean(after):.1f}" for before, after in pairs),
            verdict(better),
            f"Points, seed by seed: {'; '.join(gain(after, before) for before, after in pairs)}.",
        ),
    ]


def _as_large(ours: list[float], published: float) -> str:
    return "yes" if min(ours) >= published else "in part" if min(ours) > 0 else "no"
