"""Classes as operators see them, with who reported them: replies that are built from rows."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from aggregator_server.fleet.classes import require_class
from aggregator_server.schemas import ClassDetail, ClassReportInfo
from aggregator_server.store import Store
from aggregator_server.store.tables import AssignmentRow, ClassRow


def list_class_history(store: Store) -> tuple[ClassDetail, ...]:
    """Return every class that the fleet has, had or may get: its own first, in column order."""
    with store.reading() as session:
        rows = session.scalars(select(ClassRow)).all()
        ordered = sorted(rows, key=lambda row: (row.position is None, row.position or 0, row.class_id))
        return tuple(_detail(session, row) for row in ordered)


def describe_class(store: Store, class_id: str) -> ClassDetail:
    """Return one class.

    Raises:
        ClassNotFoundError: there is no such class.
    """
    with store.reading() as session:
        return _detail(session, require_class(session, class_id))


def _detail(session: Session, row: ClassRow) -> ClassDetail:
    found = select(AssignmentRow).where(AssignmentRow.class_id == row.class_id)
    reports = session.scalars(found.order_by(AssignmentRow.device_id, AssignmentRow.slot))
    return ClassDetail(
        class_id=row.class_id,
        name=row.name,
        discovered_in=row.discovered_in,
        state=row.state,
        merged_into=row.merged_into,
        split_from=row.split_from,
        reports=tuple(
            ClassReportInfo(device_id=item.device_id, slot=item.slot, round_id=item.round_id) for item in reports
        ),
    )
