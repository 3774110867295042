"""The tables that the terminal and the report share: titles, heads and rows of text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.demo.outcome import RoundOutcome, UserRound, mean_of, row_of
from benchmarks.demo.paper import SHOWN_AS
from benchmarks.demo.result import Result

HOW_MEASURED = (
    "local: the device's own model before the consensus, on the public recordings of its labels; global: the fleet's "
    "consensus on the same recordings, which is an ensemble over devices and rounds. Devices train on these "
    "recordings with their labels, so that both figures say little of other people; the paper's devices do not, nor "
    "do these with --set labels=false. Held-out: the device's own model alone, on recordings of speakers (or sources) "
    "whom neither a device nor the public set has, as trained in the round and as the device listens after it, among "
    "the labels that it has then."
)
_HOW_LISTENED = (
    "alone: a twin of the device learns the clips that the device has before the first round, without public set or "
    "fleet; published: as many passes as in the rounds; base: as its owner's teaching does. after: the model that "
    "listens after the last round, on the same recordings among the same labels. with new: the same where it chooses "
    "among the new sounds as well, as it does when it listens. never heard: "
    "recordings of the new sounds of which the device had none."
)


@dataclass(frozen=True)
class Table:
    """A table of text; the first column is a name, the others are aligned right unless ``left`` names them."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: tuple[int, ...] = (0,)
    note: str = ""


def _percent(value: float | None) -> str:
    return "—" if value is None else f"{value:.1f}"


def _gain(before: float | None, after: float | None) -> str:
    return "—" if before is None or after is None else f"{after - before:+.1f}"


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
        f"{result.kind.key}: accuracy in %, mean of {len(result.rounds)} rounds, beside the paper's ({paper.name})",
        ("", "model", "local", "global", "gain", "paper: local", "global", "gain"),
        tuple(rows),
        left=(0, 1),
        note=HOW_MEASURED,
    )


def _triple(local: float | None, fleet: float | None) -> tuple[str, str, str]:
    return _percent(local), _percent(fleet), _gain(local, fleet)


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
        f"{result.kind.key}: first and last round, accuracy in %",
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


def _arrow(before: float | None, after: float | None) -> str:
    return f"{_percent(before)} → {_percent(after)} ({_gain(before, after)})"


def listening_table(results: Sequence[Result]) -> Table:
    """What every device listens with on held-out recordings: alone, after the rounds, and of sounds it never had."""
    rows = []
    for index, user in enumerate(results[0].users):
        cells: list[str] = []
        for result in results:
            item = result.users[index]
            cells += _listening(item.alone, item.after, item.with_new, result.never_heard(item.name))
        rows.append((user.name, *cells))
    means = [_listening(*result.listening.values()) for result in results]
    rows.append(("average", *(cell for cells in means for cell in cells)))
    return Table(
        "What each device listens with, on recordings of speakers whom nobody trained on: named rightly, %",
        (
            "",
            *(text for result in results for text in (f"{result.kind.key}: alone", "after", "with new", "never heard")),
        ),
        tuple(rows),
        note=_HOW_LISTENED + " " + "; ".join(f"{result.kind.key}: {result.kind.title}" for result in results) + ".",
    )


def _listening(alone: float | None, after: float | None, *others: float | None) -> tuple[str, ...]:
    return _percent(alone), f"{_percent(after)} ({_gain(alone, after)})", *map(_percent, others)


def discovery_table(results: Sequence[Result]) -> Table:
    """Which new sounds were found, when, from whose reports, and whether they were matched rightly."""
    rows = tuple(
        (
            item.label,
            result.kind.key,
            ", ".join(item.devices),
            "not found" if item.round is None else f"round {item.round}",
            "—" if item.class_id is None else item.class_id,
            "yes" if item.matched else "NO",
        )
        for items in zip(*(result.new_classes for result in results), strict=True)
        for result, item in zip(results, items, strict=True)
    )
    return Table(
        "New sounds (devices do not say which word it is; only descriptions travel)",
        ("sound", "fleet", "met by", "found", "class", "matched rightly"),
        rows,
        left=(0, 1, 2, 3, 4, 5),
    )


def recognition_table(results: Sequence[Result]) -> Table:
    """How well each device recognises the new sounds in the end, on each front end."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for place, result in enumerate(results):
        for item in result.recognition:
            cells = rows.setdefault(
                (item.label, item.user, "yes" if item.heard else "never"), ["—"] * (2 * len(results))
            )
            cells[2 * place : 2 * place + 2] = [_percent(item.recognised), _percent(item.mistaken)]
    head = (text for result in results for text in (f"{result.kind.key}: recognised, %", "others taken for it, %"))
    return Table(
        "New sounds on held-out recordings, at the end",
        ("sound", "device of", "heard it", *head),
        tuple((*key, *cells) for key, cells in rows.items()),
        left=(0, 1, 2),
        note="'never': the device learned the sound from what other devices sent of it: data impressions (published), "
        "the mean embedding of their clips (base, whose network learned thirty-five words from other people, "
        "'stop' and 'go' among them). Chance is 100 % divided by the number of classes that the device "
        f"chooses from, here {max(item.classes for result in results for item in result.recognition)} at most.",
    )


def round_table(result: Result) -> Table:
    """Every round, every user."""
    rows = [_round_row(outcome, row) for outcome in result.rounds for row in outcome.users]
    return Table(
        f"{result.kind.key}: every round, accuracy in %",
        ("round", "user", "clips", "local", "global", "own, learned", "held-out before", "held-out after", "result"),
        tuple(rows),
        left=(0, 1),
    )


def _round_row(outcome: RoundOutcome, row: UserRound) -> tuple[str, ...]:
    values = (
        row.local_accuracy, row.global_accuracy, row.distilled_accuracy, row.held_out_before, row.held_out_after
    )  # fmt: skip
    return (str(outcome.number), row.name, str(row.clips), *map(_percent, values), "kept own" if row.kept_own else "")


def round_line(outcome: RoundOutcome) -> str:
    """Say a round in one line."""
    users = "   ".join(
        f"{row.name} {row.held_out_after:5.1f}{' (kept own)' if row.kept_own else ''}" for row in outcome.users
    )
    return f"round {outcome.number:2d}   held out: {users}   {outcome.seconds:4.1f} s"
