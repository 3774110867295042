"""Classes as operators see them, with who reported them; and moving reports of a class to another class."""

from collections.abc import Sequence
from dataclasses import fields

import numpy as np
from sqlalchemy import ColumnElement, bindparam, func, select, update
from sqlalchemy.orm import Session

from aggregator_server.discovery.clustering import ReportedClass
from aggregator_server.discovery.new_classes import rows_of
from aggregator_server.discovery.new_sounds import descriptions
from aggregator_server.errors import BlobError, InvalidRequestError
from aggregator_server.fleet.classes import merged_classes, require_class
from aggregator_server.fleet.public_sets import current_version
from aggregator_server.rounds.inputs import read_contribution
from aggregator_server.schemas import ClassDetail, ClassReportInfo, reply
from aggregator_server.store import Store
from aggregator_server.store.tables import AssignmentRow, ClassRow, ParticipantRow, table_of
from fleet_protocol.arrays import Floats
from fleet_protocol.messages import ClassInfo
from fleet_protocol.public_set import PublicSet

REPORTS, REPORTS_IN_LIST = 200, 10
"""Reports of a class at most where one class is shown, and where all are."""

_REPORTS = table_of(AssignmentRow)
_FIRST_REPORTS = (
    select(*(_REPORTS.c[field.name] for field in fields(ClassReportInfo)))
    .where(_REPORTS.c.class_id == bindparam("of_class"))
    .order_by(_REPORTS.c.device_id, _REPORTS.c.slot)
    .limit(bindparam("most"))
)


def reports_of_class(session: Session, class_id: str) -> tuple[AssignmentRow, ...]:
    """Return what devices reported and is a class now, also by way of a merged one, by device and slot."""
    names = [class_id, *(name for name, into in merged_classes(session).items() if into == class_id)]
    rows = select(AssignmentRow).where(AssignmentRow.class_id.in_(names))
    return tuple(session.scalars(rows.order_by(AssignmentRow.device_id, AssignmentRow.slot)))


def move_reports(session: Session, class_id: str, device_ids: Sequence[str], new: str, operation: int) -> None:
    """Make devices' reports of a class another class, and notify the devices."""
    for row in reports_of_class(session, class_id):
        if row.device_id in device_ids:
            session.execute(
                update(AssignmentRow)
                .where(AssignmentRow.device_id == row.device_id, AssignmentRow.slot == row.slot)
                .values(class_id=new, round_id=operation, acknowledged=False)
            )


def rows_by_reports(
    store: Store, session: Session, origin: ClassInfo, device_ids: Sequence[str], new: str
) -> tuple[int, dict[str, Floats]]:
    """Return the round of the newest report that moves, and the rows of both classes, as far as uploads are kept.

    Raises:
        InvalidRequestError: a device reported nothing that became the class, or no device is named.
    """
    reports = reports_of_class(session, origin.class_id)
    strangers = sorted(set(device_ids) - {row.device_id for row in reports})
    if strangers or not device_ids:
        known = ", ".join(sorted({row.device_id for row in reports})) or "none"
        raise InvalidRequestError(
            f"device {strangers[0] if strangers else '(none named)'} reported nothing that became class "
            f"{origin.class_id!r}; devices that did: {known}"
        )
    current = current_version(session)
    assert current is not None
    public_set = PublicSet.unpack(store.blobs.read(current.sha256))
    moved = [row for row in reports if row.device_id in device_ids]
    parts = {new: moved}
    if origin.discovered_in is not None and len(moved) < len(reports):
        parts[origin.class_id] = [row for row in reports if row.device_id not in device_ids]
    rows = {}
    for class_id, members in parts.items():
        described = [_described(store, session, row, public_set.settings.digest) for row in members]
        whole = [report for report in described if report is not None]
        if len(whole) == len(described):
            rows[class_id] = rows_of(public_set, whole, np.random.default_rng([len(reports), len(moved)]))
    return max(row.round_id for row in moved), rows


def _described(store: Store, session: Session, row: AssignmentRow, features: str) -> ReportedClass | None:
    """Return a report out of its upload; None if that upload was deleted, or describes it on other features."""
    taken_part = session.get(ParticipantRow, (row.round_id, row.device_id))
    if taken_part is None or taken_part.upload is None:
        return None
    try:
        contribution = read_contribution(store.blobs, taken_part.upload)
        if contribution.update.features != features:  # of a front end that the fleet had before
            return None
        _, reports = descriptions(contribution)
    except BlobError:
        return None
    return next((report for report in reports if report.slot == row.slot), None)


def list_class_history(store: Store, reports: int = REPORTS_IN_LIST) -> tuple[ClassDetail, ...]:
    """Return every class that the fleet has, had or may get: its own first, in column order.

    Args:
        reports: the first reports of each class, at most so many.
    """
    with store.reading() as session:
        rows = session.scalars(select(ClassRow)).all()
        ordered = sorted(rows, key=lambda row: (row.position < 0, max(row.position, 0), row.class_id))
        counted = _reporters(session) if reports else {}
        return tuple(_detail(session, row, counted.get(row.class_id, 0), reports) for row in ordered)


def describe_class(store: Store, class_id: str) -> ClassDetail:
    """Return one class. Raises ClassNotFoundError: there is no such class."""
    with store.reading() as session:
        row = require_class(session, class_id)
        counted = _reporters(session, AssignmentRow.class_id == class_id)
        return _detail(session, row, counted.get(class_id, 0), REPORTS)


def _reporters(session: Session, *conditions: ColumnElement[bool]) -> dict[str, int]:
    """Return how many devices reported each class that any reported."""
    devices = func.count(AssignmentRow.device_id.distinct())
    rows = session.execute(select(AssignmentRow.class_id, devices).where(*conditions).group_by(AssignmentRow.class_id))
    return {row[0]: row[1] for row in rows}


def _detail(session: Session, row: ClassRow, reported_by: int, limit: int) -> ClassDetail:
    shown: tuple[ClassReportInfo, ...] = ()
    if reported_by:
        found = session.execute(_FIRST_REPORTS, {"of_class": row.class_id, "most": limit})
        shown = tuple(ClassReportInfo(**item) for item in found.mappings())
    return reply(ClassDetail, row, reports=shown, reported_by=reported_by)
