"""An operation as rows: a round that is done, without devices, from whose result the fleet goes on.

The strategy and plan are those of the round before, so devices apply the result in the way that they know. The blobs
are on disk before one transaction writes all rows: a server that is killed has done all of it, or nothing.
"""

from sqlalchemy import select
from sqlalchemy.orm import Session

from aggregator_server.errors import RefusedError
from aggregator_server.fleet.public_sets import public_set_row
from aggregator_server.fleet.shared_models import current_model
from aggregator_server.rounds.history import newest_with_model
from aggregator_server.rounds.queries import lock_open_round, newest_done
from aggregator_server.store.tables import DONE, BlobRow, Json, OperationRow, PublicSetRow, RoundRow
from fleet_protocol.public_set import PublicSet

# What a round starts from, in columns of its row; blobs are of kinds with these names.
STARTS = ("public_set", "consensus", "prototypes", "weights", "server_state")
# What it led to, by what takes its place in the next round.
_RESULT_OF = {start: f"result_{start}" for start in STARTS}
RESULTS = tuple(_RESULT_OF.values())


def require_newest(session: Session) -> RoundRow:
    """Return the round from whose result the fleet goes on. Raises RefusedError: there is none."""
    newest = newest_done(session)
    if newest is None:
        raise RefusedError(
            "round_not_done",
            "no round is done yet so there is no state to change; open one first, or "
            "publish another public set where none was ever done",
        )
    return newest


def lines(session: Session) -> tuple[RoundRow, ...]:
    """Return the rounds from which later ones go on: of the current shared model, and the newest, which is last."""
    newest, model = require_newest(session), current_model(session)
    trained = None if model is None else newest_with_model(session, model.version)
    return (newest,) if trained is None or trained.round_id == newest.round_id else (trained, newest)


def ensure_no_open_round(session: Session) -> None:
    """Make sure that no round is open. Raises RefusedError: devices work for one."""
    row = lock_open_round(session)
    if row is not None:
        raise RefusedError(
            "round_open",
            f"round {row.round_id} is open, and works with the classes as they are; wait for it, or cancel it with "
            f"DELETE /v1/rounds/{row.round_id}",
        )


def insert_operation(
    session: Session,
    base: RoundRow,
    now: float,
    operation: str,
    results: dict[str, str | None],
    details: Json,
    restores: int | None = None,
) -> RoundRow:
    """Insert an operation, and the round that is done with its result.

    Args:
        session: a writing one; no round is open.
        base: the round whose strategy, plan and model it has.
        results: the result's blobs, by column; those of ``base`` where one is left out.
    """
    newest = newest_done(session)
    after = {name: getattr(base, name) for name in RESULTS} | results
    note_blobs(session, after)
    row = RoundRow(
        state=DONE,
        strategy=base.strategy,
        plan=base.plan,
        opened_at=now,
        closed_at=now,
        model_version=base.model_version,
        details={},
        **{start: getattr(newest, result) for start, result in _RESULT_OF.items()},
        **after,
    )
    session.add(row)
    session.flush()
    session.add(OperationRow(round_id=row.round_id, what=operation, restores=restores, details=details))
    return row


def note_blobs(session: Session, results: dict[str, str | None]) -> None:
    """Insert the rows of a result's blobs."""
    for kind, name in _RESULT_OF.items():
        sha256 = results[name]
        if sha256 is not None:
            session.merge(BlobRow(sha256=sha256, kind=kind))
    session.flush()


def note_public_set(session: Session, sha256: str, public_set: PublicSet, round_id: int) -> None:
    """Make a public set the current one, where it is not."""
    newest = select(PublicSetRow.sha256).order_by(PublicSetRow.version.desc()).limit(1)
    if session.scalar(newest) != sha256:
        session.add(public_set_row(sha256, public_set, round_id))
        session.flush()
