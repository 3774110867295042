"""The tables that the terminal and the page share: titles, heads and rows of text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Fleets = Mapping[str, Mapping[str, Any]]
"""The figures of :func:`demo.play.play`, by the fleet's key."""


@dataclass(frozen=True)
class Table:
    """A table of text; the first column is a name, the others are aligned right unless ``left`` names them."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: tuple[int, ...] = (0,)
    note: str = ""


def listening_table(fleets: Fleets) -> Table:
    """What every device listens with on held-out recordings: alone, after the rounds, and of sounds it never had."""
    lines = [
        *((user["name"], [figures["users"][index] for figures in fleets.values()]) for index, user in _first(fleets)),
        ("average", [figures["average"] for figures in fleets.values()]),
    ]
    return Table(
        "What each device listens with, on recordings of speakers whom nobody trained on: named rightly, %",
        ("", *(text for key in fleets for text in (f"{key}: alone", "after", "with new", "never heard"))),
        tuple((name, *(cell for row in rows for cell in _listening(row))) for name, rows in lines),
        note="alone: a twin of the device learns the clips that the device has before the first round, without public "
        "set or fleet; published: as many passes as in the rounds; base: as its owner's teaching does. after: the "
        "model that listens after the last round, on the same recordings among the same labels. with new: the same "
        "where it chooses among the new sounds as well, as it does when it listens. never heard: recordings of the new "
        "sounds of which the device had none.",
    )


def _first(fleets: Fleets) -> list[tuple[int, Mapping[str, Any]]]:
    return list(enumerate(next(iter(fleets.values()))["users"]))


def _listening(row: Mapping[str, Any]) -> tuple[str, ...]:
    gain = f"{_percent(row['after'])} ({row['after'] - row['alone']:+.1f})"
    return _percent(row["alone"]), gain, _percent(row["with_new"]), _percent(row["never_heard"])


def discovery_table(fleets: Fleets) -> Table:
    """Which new sounds were found, when, from whose reports, and whether they were matched rightly."""
    rows = [
        (
            item["label"],
            key,
            ", ".join(item["devices"]),
            "not found" if item["round"] is None else f"round {item['round']}",
            "yes" if item["matched"] else "NO",
        )
        for key, figures in fleets.items()
        for item in figures["new_classes"]
    ]
    return Table(
        "New sounds (devices do not say which word it is; only descriptions travel)",
        ("sound", "fleet", "met by", "found", "matched rightly"),
        tuple(sorted(rows, key=lambda row: row[0], reverse=True)),
        left=(0, 1, 2, 3, 4),
    )


def recognition_table(fleets: Fleets) -> Table:
    """How well each device recognises the new sounds in the end, in each fleet."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for place, figures in enumerate(fleets.values()):
        for item in figures["recognition"]:
            name = (item["label"], item["user"], "yes" if item["heard"] else "never")
            cells = rows.setdefault(name, ["—"] * (2 * len(fleets)))
            cells[2 * place : 2 * place + 2] = [_percent(item["recognised"]), _percent(item["mistaken"])]
    classes = max((item["classes"] for figures in fleets.values() for item in figures["recognition"]), default=0)
    return Table(
        "New sounds on held-out recordings, at the end",
        (
            "sound",
            "device of",
            "heard it",
            *(text for key in fleets for text in (f"{key}: recognised, %", "others taken for it, %")),
        ),
        tuple((*name, *cells) for name, cells in rows.items()),
        left=(0, 1, 2),
        note="'never': the device learned the sound from what other devices sent of it: data impressions (published), "
        "the mean embedding of their clips (base, whose network learned thirty-five words from other people, "
        "'stop' and 'go' among them). Chance is 100 % divided by the number of classes that the device chooses from, "
        f"here {classes} at most.",
    )


def _percent(value: float | None) -> str:
    return "—" if value is None else f"{value:.1f}"
