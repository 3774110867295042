"""A pretraining's report as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def lines(report: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a report, whose fields docs/pretraining.md explains."""
    cost = report["network"]
    yield (
        f"{cost['size']}: {cost['multiply_adds'] / 1e6:.2f} million multiply-adds, {cost['weights']:,} weights, "
        f"embedding {cost['embedding']}"
    )
    for title, result in report["closed_set"].items():
        yield f"{title}: {result['percent']:.2f} % of {result['clips']} clips, {result['classes']} classes"
    if report["few_shot"]:
        yield f"{'words left out of training':<28} ways  takes x speakers  same speaker %  other speakers %"
    for case in report["few_shot"]:
        same, other = ("-" if case[who] is None else f"{case[who]:.1f}" for who in ("same_speaker", "other_speakers"))
        taught = f"{case['ways']:>4}  {case['takes']:>5} x {case['speakers']:<8}"
        yield f"{case['corpus']:<28} {taught}  {same:>14}  {other:>16}"
    for title, result in report["closed_set"].items():
        confusions = ", ".join(f"{c['word']} as {c['taken_for']} {c['percent']:g} %" for c in result["confusions"])
        if confusions:
            yield f"{title}, most frequent confusions: {confusions}"
