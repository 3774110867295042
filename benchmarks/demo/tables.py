"""The tables that the terminal and the report share: titles, heads and rows of text."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from benchmarks.demo.outcome import RoundOutcome, UserRound, mean_of, row_of
from benchmarks.demo.paper import SHOWN_AS
from benchmarks.demo.result import Result

HOW_MEASURED = (
    "local: the device's own model before the consensus, on the public recordings of its labels; global: the fleet's "
    "consensus on the same recordings, which is an ensemble over devices and rounds. Every device scores these "
    "recordings and learns from the consensus on them, never from their true labels. Held-out: the device's own model "
    "alone, on recordings of speakers (or sources) whom neither a device nor the public set has, before and after it "
    "learned from the consensus."
)


@dataclass(frozen=True)
class Table:
    """A table of text; the first column is a name, the others are aligned right unless ``left`` names them."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: tuple[int, ...] = (0,)
    note: str = ""


def _percent(value: float) -> str:
    return f"{value:.1f}"


def _gain(value: float) -> str:
    return f"{value:+.1f}"


def accuracy_table(result: Result) -> Table:
    """Local and global accuracy, averaged over the rounds, beside the paper's."""
    paper = result.published
    rows = []
    for user, theirs in zip(result.users, paper.users, strict=True):
        own, fleet = result.local(user.name), result.consensus(user.name)
        rows.append((user.name, SHOWN_AS[user.architecture], *_triple(own, fleet), *_triple(*theirs)))
    own, fleet = result.average
    rows.append(("average", "", *_triple(own, fleet), *_triple(*paper.average)))
    return Table(
        f"Accuracy in %, averaged over {len(result.rounds)} rounds, beside the paper's ({paper.name})",
        ("", "model", "local", "global", "gain", "paper: local", "global", "gain"),
        tuple(rows),
        left=(0, 1),
        note=HOW_MEASURED,
    )


def _triple(local: float, fleet: float) -> tuple[str, str, str]:
    return _percent(local), _percent(fleet), _gain(fleet - local)


def course_table(result: Result) -> Table:
    """First round, last round and mean of what was measured on held-out recordings and on the public ones."""
    first, last = result.rounds[0], result.rounds[-1]
    rows = []
    for user in result.users:
        ends = [row_of(outcome, user.name) for outcome in (first, last)]
        public = [_arrow(row.local_accuracy, row.global_accuracy) for row in ends]
        held = [_arrow(row.held_out_before, row.held_out_after) for row in ends]
        before = mean_of(result.rounds, user.name, lambda row: row.held_out_before)
        after = mean_of(result.rounds, user.name, lambda row: row.held_out_after)
        rows.append((user.name, *public, *held, _arrow(before, after)))
    return Table(
        "First and last round, accuracy in %",
        (
            "",
            f"local → global, round {first.number}",
            f"round {last.number}",
            f"held-out, before → after, round {first.number}",
            f"round {last.number}",
            "mean of all rounds",
        ),
        tuple(rows),
    )


def _arrow(before: float, after: float) -> str:
    return f"{before:.1f} → {after:.1f} ({after - before:+.1f})"


def discovery_table(result: Result) -> Table:
    """Which new sounds were found, when, from whose reports, and whether they were matched rightly."""
    rows = tuple(
        (
            item.label,
            ", ".join(item.devices),
            "not found" if item.round is None else f"round {item.round}",
            "—" if item.class_id is None else item.class_id,
            "yes" if item.matched else "NO",
        )
        for item in result.new_classes
    )
    return Table(
        "New sounds (devices do not say which word it is; only impressions travel)",
        ("sound", "met by", "found", "class", "matched rightly"),
        rows,
        left=(0, 1, 2, 3, 4),
    )


def recognition_table(result: Result) -> Table:
    """How well each device recognises the new sounds in the end."""
    rows = tuple(
        (
            item.label,
            item.user,
            "yes" if item.heard else "never",
            _percent(item.recognised),
            _percent(item.mistaken),
            str(item.classes),
            str(item.recordings),
        )
        for item in result.recognition
    )
    return Table(
        "New sounds on held-out recordings, at the end",
        ("sound", "device of", "heard it", "recognised, %", "others taken for it, %", "among classes", "recordings"),
        rows,
        left=(0, 1, 2),
        note="'never': the device learned the sound from the fleet's data impressions alone (zero-shot). "
        "Chance is 100 % divided by the number of classes that the device chooses from.",
    )


def round_table(result: Result) -> Table:
    """Every round, every user."""
    rows = [_round_row(outcome, row) for outcome in result.rounds for row in outcome.users]
    return Table(
        "Every round, accuracy in %",
        ("round", "user", "clips", "local", "global", "own, learned", "held-out before", "held-out after"),
        tuple(rows),
        left=(0, 1),
    )


def _round_row(outcome: RoundOutcome, row: UserRound) -> tuple[str, ...]:
    values = (
        row.local_accuracy, row.global_accuracy, row.distilled_accuracy, row.held_out_before, row.held_out_after
    )  # fmt: skip
    return (str(outcome.number), row.name, str(row.clips), *map(_percent, values))


def round_line(outcome: RoundOutcome) -> str:
    """Say a round in one line."""
    users = "   ".join(f"{row.name} {row.local_accuracy:5.1f} → {row.global_accuracy:5.1f}" for row in outcome.users)
    gain = statistics.fmean(row.global_accuracy - row.local_accuracy for row in outcome.users)
    return f"round {outcome.number:2d}   {users}   gain {gain:+5.1f}   {outcome.seconds:4.1f} s"
