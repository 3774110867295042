"""The fleet's classes for people: who reported each, and who stands behind it."""

from dataclasses import fields
from typing import Any

from sqlalchemy import ColumnElement, bindparam, func, select
from sqlalchemy.orm import Session

from aggregator_server.fleet.class_backing import backing_of, refusals
from aggregator_server.fleet.classes import require_class
from aggregator_server.schemas import ClassDetail, ClassReportInfo, reply
from aggregator_server.store.store import Store
from aggregator_server.store.tables import AssignmentRow, ClassRow, table_of
from fleet_protocol.messages.rest import ClassBacking

REPORTS, REPORTS_IN_LIST = 200, 10  # reports of a class at most where one class is shown, and where all are

_REPORTS = table_of(AssignmentRow)
_FIRST_REPORTS = (
    select(*(_REPORTS.c[field.name] for field in fields(ClassReportInfo)))
    .where(_REPORTS.c.class_id == bindparam("of_class"))
    .order_by(_REPORTS.c.device_id, _REPORTS.c.slot)
    .limit(bindparam("most"))
)


def list_class_history(store: Store, reports: int = REPORTS_IN_LIST) -> tuple[ClassDetail, ...]:
    """Return every class of now and before, in column order, each with so many of its first reports."""
    with store.reading() as session:
        rows = session.scalars(select(ClassRow)).all()
        ordered = sorted(rows, key=lambda row: (row.position < 0, max(row.position, 0), row.class_id))
        counted = _reporters(session) if reports else {}
        backing = {one.class_id: one for one in backing_of(session)} if reports else {}
        return tuple(
            _detail(session, row, counted.get(row.class_id, 0), reports, backing.get(row.class_id)) for row in ordered
        )


def describe_class(store: Store, class_id: str) -> ClassDetail:
    """Return one class. Raises ClassNotFoundError: there is no such class."""
    with store.reading() as session:
        row = require_class(session, class_id)
        counted = _reporters(session, AssignmentRow.class_id == class_id)
        backing = next((one for one in backing_of(session) if one.class_id == class_id), None)
        return _detail(session, row, counted.get(class_id, 0), REPORTS, backing)


def _reporters(session: Session, *conditions: ColumnElement[bool]) -> dict[str, int]:
    """Return how many devices reported each class that any reported."""
    devices = func.count(AssignmentRow.device_id.distinct())
    rows = session.execute(select(AssignmentRow.class_id, devices).where(*conditions).group_by(AssignmentRow.class_id))
    return {row[0]: row[1] for row in rows}


def _detail(session: Session, row: ClassRow, reported_by: int, limit: int, backing: ClassBacking | None) -> ClassDetail:
    shown: tuple[ClassReportInfo, ...] = ()
    if reported_by:
        found = session.execute(_FIRST_REPORTS, {"of_class": row.class_id, "most": limit})
        shown = tuple(ClassReportInfo(**item) for item in found.mappings())
    said: dict[str, Any] = {}
    if backing is not None:
        refused = refusals(session).get(row.class_id)
        said = {"sent_by": backing.devices, "approved": backing.approved, "quarantined": backing.quarantined}
        said["refused"] = {} if refused is None else dict(refused["why"])
    return reply(ClassDetail, row, reports=shown, reported_by=reported_by, **said)
