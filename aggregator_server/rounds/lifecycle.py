"""Rounds: rows in the database, which an idempotent step moves forward, or an operator cancels.

docs/architecture.md, "A round is rows in a database", says why.

:func:`advance` reads the state, computes, puts the blobs on disk, and then writes all effects in one transaction.
Killed anywhere, it can start again and comes to the same bytes.
"""

from collections.abc import Callable

from sqlalchemy.orm import Session

from aggregator_server.errors import RefusedError
from aggregator_server.fleet.audit import SERVER, Actor, audit
from aggregator_server.rounds import queries
from aggregator_server.rounds.computation import compute_here
from aggregator_server.rounds.opening import open_next_group_round
from aggregator_server.rounds.private.stages import move
from aggregator_server.rounds.quorum import may_end, why_missed
from aggregator_server.rounds.result import Compute, apply_result
from aggregator_server.rounds.retention import remove_uploads
from aggregator_server.rounds.snapshot import read_open_round
from aggregator_server.store.store import Store
from aggregator_server.store.tables import RoundRow


def cancel_round(store: Store, round_id: int, now: float, by: Actor = SERVER) -> None:
    """End an open round without a result. Raises RoundNotFoundError: there is none; RefusedError: it is over."""
    with store.writing() as session:
        row = queries.require_round(session, round_id)
        if not queries.is_open(row):
            state = queries.state_of(row)
            raise RefusedError(
                "round_closed", f"round {round_id} is {state} already; only an open round can be cancelled"
            )
        queries.mark_cancelled(session, round_id, now, by.who)
        audit(session, "round_cancelled", by, now, round_id=round_id)
    remove_uploads(store, round_id)


def advance(
    store: Store, now: float, compute: Compute = compute_here, closed: Callable[[], None] = lambda: None
) -> int | None:
    """Move the open round as far as it goes now; return its number when that closed it.

    Any process may call it at any time and any number of times.

    Args:
        compute: makes the result of a round, or says why there is none (rounds/computation.py).
        closed: called as soon as the round's end, or its next stage, is durable; files that are needed no more are
            removed afterwards.

    Raises OSError, MemoryError: the result says nothing about the round: call again later.
    """
    while True:
        ended = move_stage(store, now, closed)
        if ended is not None:
            remove_uploads(store, ended)
            return ended
        with store.reading() as session:
            is_due, _ = queries.read_waiting(session, now)
            snapshot = read_open_round(session) if is_due else None
        if snapshot is None or not may_end(snapshot, now):
            return None
        reason = why_missed(snapshot, len(snapshot.uploads))
        result = compute(store.blobs, snapshot) if reason is None else reason
        with store.writing() as session:
            if read_open_round(session) != snapshot:
                continue
            if isinstance(result, str):
                queries.mark_failed(session, snapshot.round_id, now, result)
            else:
                apply_result(session, snapshot.round_id, result, now)
            _note_end(session, snapshot.round_id, now)
            open_next_group_round(session, snapshot.round_id, now)
        closed()
        remove_uploads(store, snapshot.round_id)
        return snapshot.round_id


def move_stage(store: Store, now: float, moved: Callable[[], None]) -> int | None:
    """Move the open private round through the stages that are over; return its number where it ended so.

    ``moved``: called after each.
    """
    while True:
        with store.reading() as session:
            if queries.stage_due(session, now) is None:
                return None
        with store.writing() as session:
            round_id = queries.stage_due(session, now)
            if round_id is None:
                return None
            reason = move(session, session.get_one(RoundRow, round_id))
            if reason is not None:
                queries.mark_failed(session, round_id, now, reason)
                _note_end(session, round_id, now)
        moved()
        if reason is not None:
            return round_id


def _note_end(session: Session, round_id: int, now: float) -> None:
    session.expire_all()
    row = session.get_one(RoundRow, round_id)
    audit(session, "round_closed", SERVER, now, round_id=row.round_id, state=row.state, reason=row.reason)
