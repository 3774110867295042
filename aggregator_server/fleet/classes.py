"""The fleet's classes, in column order, what people call them, and what became of former ones."""

import time
from collections.abc import Iterable
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from aggregator_server.errors import ClassNotFoundError, RefusedError
from aggregator_server.fleet.audit import SERVER, Actor, audit
from aggregator_server.names import check_name, unique_name
from aggregator_server.store.store import Store
from aggregator_server.store.tables import ACTIVE, CLASSES, MERGED, RETIRED, ClassRow
from fleet_protocol.messages.rest import ClassInfo

_ALL = (
    select(CLASSES.c.class_id, CLASSES.c.name, CLASSES.c.discovered_in)
    .where(CLASSES.c.state == ACTIVE)
    .order_by(CLASSES.c.position)
)
_MERGED = (
    select(CLASSES.c.class_id, CLASSES.c.merged_into).where(CLASSES.c.state == MERGED).order_by(CLASSES.c.class_id)
)
_RETIRED = select(CLASSES.c.class_id).where(CLASSES.c.state == RETIRED).order_by(CLASSES.c.class_id)


def all_classes(session: Session) -> tuple[ClassInfo, ...]:
    """Return every class in column order."""
    rows: Iterable[Any] = session.execute(_ALL)
    return tuple(ClassInfo(*row) for row in rows)


def list_classes(store: Store) -> tuple[ClassInfo, ...]:
    """Return every class in column order."""
    with store.reading() as session:
        return all_classes(session)


def require_class(session: Session, class_id: str, *states: str) -> ClassRow:
    """Return a class.

    ``states``: states that it may have; all, where none is given. Raises ClassNotFoundError: there is no such class, or
    it has another state.
    """
    row = session.get(ClassRow, class_id)
    if row is None:
        known = ", ".join(info.class_id for info in all_classes(session))
        raise ClassNotFoundError(f"there is no class {class_id!r}; known: {known or 'none'}")
    if states and row.state not in states:
        raise ClassNotFoundError(f"class {class_id!r} is {row.state}; this needs one that is {' or '.join(states)}")
    return row


def rename_class(store: Store, class_id: str, name: str, by: Actor = SERVER) -> None:
    """Give a class another name; devices see it with their next work.

    Raises ClassNotFoundError: there is no such class. RefusedError: another class has that name, if only in other case.
    InvalidRequestError: the name cannot be stored.
    """
    check_name(name, "a class's name")
    with store.writing() as session:
        row = require_class(session, class_id, ACTIVE)
        other = session.scalar(select(ClassRow).where(ClassRow.folded == name.casefold()))
        if other is not None and other.class_id != class_id:
            raise RefusedError(
                "class_name_taken", f"class {other.class_id!r} has the name {other.name!r} already; choose another name"
            )
        audit(session, "class_renamed", by, time.time(), class_id=class_id, before=row.name, name=name)
        row.name = name
        row.folded = name.casefold()


def merged_classes(session: Session) -> dict[str, str]:
    """Return by merged class the class that it is now; one that was merged itself is followed to its end."""
    direct = {str(class_id): str(into) for class_id, into in session.execute(_MERGED)}
    found = {}
    for class_id, target in direct.items():
        into = target
        while into in direct:
            into = direct[into]
        found[class_id] = into
    return found


def retired_classes(session: Session) -> tuple[str, ...]:
    """Return the classes that an operator retired: their sounds are not to be reported again."""
    return tuple(session.execute(_RETIRED).scalars())


def set_columns(session: Session, classes: Iterable[ClassInfo], left: str) -> None:
    """Make all classes of a public set the fleet's, in this order; other active ones get the state ``left``."""
    for former in session.scalars(select(ClassRow).where(ClassRow.state == ACTIVE)).all():
        # A position below 0 is no column; a name is printable, and what stands for that of a former class is not.
        lowest = min(session.scalar(select(func.min(ClassRow.position))) or 0, 0)
        former.state, former.position, former.folded = left, lowest - 1, f"\n{former.class_id}"
        session.flush()
    taken: list[str] = []
    for position, info in enumerate(classes):
        row = session.get(ClassRow, info.class_id)
        if row is None:
            row = ClassRow(class_id=info.class_id, name=info.name, discovered_in=info.discovered_in)
        name = unique_name(row.name, taken)
        taken.append(name)
        row.name, row.folded, row.position = name, name.casefold(), position
        row.state, row.merged_into = ACTIVE, None
        session.add(row)
    session.flush()
