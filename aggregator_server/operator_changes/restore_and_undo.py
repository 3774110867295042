"""Goes back to the state after a round, or before a change of classes; and what an operation is: a round that is done.

Its strategy and plan are those of the round before, so devices apply the result in the way that they know. The blobs
are on disk before one transaction writes all rows: a server that is killed has done all of it, or nothing. Rounds that
are undone stay in the list: nothing goes on from them, and an undone round can be restored in turn.
"""

import logging
from collections.abc import Sequence

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from aggregator_server.errors import RefusedError
from aggregator_server.fleet.audit import SERVER, Actor, audit
from aggregator_server.fleet.classes import all_classes, set_columns
from aggregator_server.fleet.publications import current_model, public_set_row
from aggregator_server.rounds import queries
from aggregator_server.rounds.result import KINDS
from aggregator_server.store import tables
from aggregator_server.store.store import Store
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import ClassInfo

_log = logging.getLogger(__name__)
RESULTS = {kind: f"result_{kind}" for kind in KINDS}
"""Columns of a round's results, by what takes their place in the next round."""
WAY_OUT = ", and works with the classes as they are; wait for it, or cancel it with DELETE /v1/rounds/{}"


def lines(session: Session) -> tuple[tables.RoundRow, ...]:
    """Return the rounds that later ones go on from: the model's, and the newest. Raises RefusedError: there is none."""
    newest, model = queries.newest_done(session), current_model(session)
    if newest is None:
        raise RefusedError(
            "round_not_done",
            "no round is done yet so there is no state to change; open one first, or "
            "publish another public set where none was ever done",
        )
    trained = None if model is None else queries.newest_with_model(session, model.version)
    return (newest,) if trained is None or trained.round_id == newest.round_id else (trained, newest)


def insert_operation(
    session: Session,
    base: tables.RoundRow,
    now: float,
    operation: str,
    results: dict[str, str | None],
    details: tables.Json,
    restores: int | None = None,
) -> tables.RoundRow:
    """Insert an operation, and the round that is done with its result, in a writing session while no round is open.

    ``base``: the round whose strategy, plan, model and blobs it has, but for those of ``results``, by column.
    """
    newest = queries.newest_done(session)
    after = {name: getattr(base, name) for name in RESULTS.values()} | results
    for kind, name in RESULTS.items():
        if after[name] is not None:
            session.merge(tables.BlobRow(sha256=after[name], kind=kind))
    session.flush()
    row = tables.RoundRow(
        state=tables.DONE,
        strategy=base.strategy,
        plan=base.plan,
        opened_at=now,
        closed_at=now,
        model_version=base.model_version,
        details={},
        **{start: getattr(newest, result) for start, result in RESULTS.items()},
        **after,
    )
    session.add(row)
    session.flush()
    session.add(tables.OperationRow(round_id=row.round_id, what=operation, restores=restores, details=details))
    return row


def note_public_set(session: Session, sha256: str, public_set: PublicSet, round_id: int) -> None:
    """Make a public set the current one, where it is not."""
    newest = select(tables.PublicSetRow.sha256).order_by(tables.PublicSetRow.version.desc()).limit(1)
    if session.scalar(newest) != sha256:
        session.add(public_set_row(sha256, public_set, round_id))
        session.flush()


def restore_round(store: Store, round_id: int, now: float, by: Actor = SERVER) -> int:
    """Bring back the fleet's state after a round; return the number of the round that does so.

    Public set, consensus, weights, prototypes and classes are as they were then. Classes of later rounds are undone:
    devices report their sounds again. A name that a person gave since stays. Raises RoundNotFoundError: there is none.
    RefusedError: it has no result, or is a group's, or another is open. BlobError: a blob is missing or damaged.
    """
    while True:
        with store.reading() as session:
            based_on = _require_restorable(session, round_id)
            last = _last_round(session)
        public_set = PublicSet.unpack(store.blobs.read(str(based_on.result_public_set)))
        with store.writing() as session:
            if _last_round(session) != last:
                continue
            based_on = _require_restorable(session, round_id)
            queries.require_no_open_round(session, WAY_OUT)
            results = {name: getattr(based_on, name) for name in RESULTS.values()}
            row = insert_operation(session, based_on, now, "restore", results, {}, restores=round_id)
            note_public_set(session, str(based_on.result_public_set), public_set, row.round_id)
            later = (tables.RoundRow.round_id > round_id) & (tables.RoundRow.round_id < row.round_id)
            session.execute(update(tables.RoundRow).where(later, queries.COUNTS).values(undone_by=row.round_id))
            _restore_classes(session, public_set.classes)
            audit(session, "round_restored", by, now, round_id=row.round_id, restores=round_id)
            session.flush()
            new = row.round_id
        _log.info("round %d restores the state after round %d", new, round_id)
        return new


def undo_operation(store: Store, operation: int, now: float, by: Actor = SERVER) -> None:
    """Bring back the fleet's state before an operation, by the number of its round, where nothing came since.

    Raises RoundNotFoundError: there is no such round. RefusedError: another came since, or is open.
    """
    with store.reading() as session:
        row, newest = queries.require_round(session, operation), lines(session)[-1]
        # An operation has a round for the shared model's line, too, of the same time.
        earlier = (tables.RoundRow.round_id < operation) & (tables.RoundRow.opened_at != row.opened_at)
        before = session.scalar(
            select(func.max(tables.RoundRow.round_id)).where(queries.COUNTS, queries.OF_FLEET, earlier)
        )
        if newest.round_id != operation or before is None:
            raise RefusedError(
                "round_not_done",
                f"round {newest.round_id} came since, and would be undone too; go back on the page of the round whose "
                "state is wanted",
            )
    restore_round(store, before, now, by)


def _require_restorable(session: Session, round_id: int) -> tables.RoundRow:
    row = queries.require_round(session, round_id)
    if not queries.is_done(row):
        raise RefusedError(
            "round_not_done",
            f"round {round_id} is {queries.state_of(row)}, so there is no state after it; restore another",
        )
    if row.follows is not None:
        raise RefusedError(
            "round_not_done",
            f"round {round_id} is a group's; restore the fleet's round before it, {row.follows}, instead",
        )
    return row


def _last_round(session: Session) -> int:
    return session.scalar(select(func.max(tables.RoundRow.round_id))) or 0


def _restore_classes(session: Session, classes: Sequence[ClassInfo]) -> None:
    # Devices get notice again of their sounds that belong to a restored class. What was recognised as a class that is
    # none now is forgotten, so that it is reported again.
    present = {info.class_id for info in all_classes(session)}
    set_columns(session, classes, tables.UNDONE)
    names = {info.class_id for info in classes}
    undone = select(tables.ClassRow.class_id).where(tables.ClassRow.state == tables.UNDONE)
    session.execute(delete(tables.AssignmentRow).where(tables.AssignmentRow.class_id.in_(undone)))
    back = tables.AssignmentRow.class_id.in_(sorted(names - present))
    session.execute(update(tables.AssignmentRow).where(back).values(acknowledged=False))
    assert not names - set(
        session.scalars(select(tables.ClassRow.class_id).where(tables.ClassRow.state == tables.ACTIVE))
    )
