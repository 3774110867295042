"""The states of a round: the only module that compares them, and the only one that changes them.

    open -> done | failed(reason)

A round is inserted open (rounds/opening.py), or done where an operator made its result (undo/operations.py). Queries
for rounds by state stand in rounds/queries.py.
"""

from typing import Any

from sqlalchemy import update
from sqlalchemy.orm import Session

from aggregator_server.store.tables import DONE, FAILED, OPEN, RoundRow, table_of

# Conditions for queries.
IS_OPEN = RoundRow.state == OPEN
IS_OVER = RoundRow.state != OPEN
IS_DONE = RoundRow.state == DONE
# Done, and not undone by an operator.
COUNTS = IS_DONE & RoundRow.undone_by.is_(None)
_ROUNDS = table_of(RoundRow)
TABLE_IS_OPEN = _ROUNDS.c.state == OPEN  # for statements on tables
TABLE_COUNTS = (_ROUNDS.c.state == DONE) & _ROUNDS.c.undone_by.is_(None)

_REASON_LENGTH = 1_000


def is_open(row: RoundRow) -> bool:
    """Tell whether a round still takes uploads, its deadline aside."""
    return row.state == OPEN


def is_done(row: RoundRow) -> bool:
    """Tell whether a round has a result."""
    return row.state == DONE


def mark_done(session: Session, round_id: int, now: float, result: dict[str, Any]) -> None:
    """End a round with a result."""
    _end(session, round_id, result | {"state": DONE, "closed_at": now})


def mark_failed(session: Session, round_id: int, now: float, reason: str) -> None:
    """End a round without a result; the reason is for people."""
    _end(session, round_id, {"state": FAILED, "closed_at": now, "reason": reason[:_REASON_LENGTH]})


def _end(session: Session, round_id: int, values: dict[str, Any]) -> None:
    session.execute(update(RoundRow).where(RoundRow.round_id == round_id).values(**values))
