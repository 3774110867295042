"""The fleet's classes for people: who reported each, and who stands behind it."""

from dataclasses import fields
from typing import Any

from sqlalchemy import ColumnElement, bindparam, func, select
from sqlalchemy.orm import Session

from aggregator_server.fleet.class_backing import backing_of, refusals
from aggregator_server.fleet.classes import require_class
from aggregator_server.schemas import ClassDetail, ClassReportInfo, reply
from aggregator_server.store.store import Store
from aggregator_server.store.tables import ASSIGNMENTS, AssignmentRow, ClassRow

REPORTS, REPORTS_IN_LIST = 200, 10  # reports of a class at most where one class is shown, and where all are

_FIRST_REPORTS = (
    select(*(ASSIGNMENTS.c[field.name] for field in fields(ClassReportInfo)))
    .where(ASSIGNMENTS.c.class_id == bindparam("of_class"))
    .order_by(ASSIGNMENTS.c.device_id, ASSIGNMENTS.c.slot)
    .limit(bindparam("most"))
)


def list_class_history(store: Store, reports: int = REPORTS_IN_LIST) -> tuple[ClassDetail, ...]:
    """Return every class of now and before, in column order, each with so many of its first reports."""
    with store.reading() as session:
        rows = session.scalars(select(ClassRow)).all()
        ordered = sorted(rows, key=lambda row: (row.position < 0, max(row.position, 0), row.class_id))
        counted = _reporters(session) if reports else {}
        said = _backing(session) if reports else {}
        return tuple(
            _detail(session, row, counted.get(row.class_id, 0), reports, said.get(row.class_id, {})) for row in ordered
        )


def describe_class(store: Store, class_id: str) -> ClassDetail:
    """Return one class. Raises ClassNotFoundError: there is no such class."""
    with store.reading() as session:
        row = require_class(session, class_id)
        counted = _reporters(session, AssignmentRow.class_id == class_id)
        return _detail(session, row, counted.get(class_id, 0), REPORTS, _backing(session).get(class_id, {}))


def _reporters(session: Session, *conditions: ColumnElement[bool]) -> dict[str, int]:
    devices = func.count(AssignmentRow.device_id.distinct())
    rows = session.execute(select(AssignmentRow.class_id, devices).where(*conditions).group_by(AssignmentRow.class_id))
    return {row[0]: row[1] for row in rows}


def _backing(session: Session) -> dict[str, dict[str, Any]]:
    refused = refusals(session)
    return {
        one.class_id: {
            "sent_by": one.devices,
            "approved": one.approved,
            "quarantined": one.quarantined,
            "refused": dict(refused[one.class_id]["why"]) if one.class_id in refused else {},
        }
        for one in backing_of(session)
    }


def _detail(session: Session, row: ClassRow, reported_by: int, limit: int, said: dict[str, Any]) -> ClassDetail:
    shown: tuple[ClassReportInfo, ...] = ()
    if reported_by:
        found = session.execute(_FIRST_REPORTS, {"of_class": row.class_id, "most": limit})
        shown = tuple(ClassReportInfo(**item) for item in found.mappings())
    return reply(ClassDetail, row, reports=shown, reported_by=reported_by, **said)
