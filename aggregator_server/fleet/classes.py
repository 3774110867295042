"""The fleet's classes, in column order, what people call them, and what became of former ones."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from aggregator_server.errors import ClassNameTakenError, ClassNotFoundError
from aggregator_server.fleet.audit import SERVER, Actor, audit
from aggregator_server.names import check_name, unique_name
from aggregator_server.store import Store
from aggregator_server.store.tables import ACTIVE, MERGED, PROPOSED, REJECTED, RETIRED, ClassRow
from fleet_protocol.messages import ClassInfo, MergedClass


def all_classes(session: Session) -> tuple[ClassInfo, ...]:
    """Return every class in column order."""
    columns = select(ClassRow.class_id, ClassRow.name, ClassRow.discovered_in).where(ClassRow.state == ACTIVE)
    return tuple(ClassInfo(*row) for row in session.execute(columns.order_by(ClassRow.position)))


def list_classes(store: Store) -> tuple[ClassInfo, ...]:
    """Return every class in column order."""
    with store.reading() as session:
        return all_classes(session)


def require_class(session: Session, class_id: str, *states: str) -> ClassRow:
    """Return a class.

    Args:
        session: any.
        class_id: of the class.
        states: that it may have; all, where none is given.

    Raises:
        ClassNotFoundError: there is no such class, or it has another state.
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

    Raises:
        ClassNotFoundError: there is no such class.
        ClassNameTakenError: another class has that name, if only in other case.
        InvalidRequestError: the name cannot be stored.
    """
    check_name(name, "a class's name")
    with store.writing() as session:
        row = require_class(session, class_id, ACTIVE, PROPOSED)
        require_free_name(session, name, class_id)
        audit(session, "class_renamed", by, time.time(), class_id=class_id, before=row.name, name=name)
        row.name, row.folded = name, name.casefold() if row.state == ACTIVE else None


def require_free_name(session: Session, name: str, class_id: str) -> None:
    """Check that no other class of the fleet has a name.

    Raises:
        ClassNameTakenError: one has it, if only in other case.
    """
    other = session.scalar(select(ClassRow).where(ClassRow.folded == name.casefold()))
    if other is not None and other.class_id != class_id:
        raise ClassNameTakenError(f"class {other.class_id!r} is called {other.name!r}; choose another name")


def classes_in_state(session: Session, *states: str) -> tuple[str, ...]:
    """Return the identifiers of the classes that have one of some states, in order of the identifiers."""
    rows = select(ClassRow.class_id).where(ClassRow.state.in_(states)).order_by(ClassRow.class_id)
    return tuple(session.scalars(rows))


def identifiers(session: Session) -> tuple[str, ...]:
    """Return the identifiers of all classes that the fleet has, had or may get: none is given twice."""
    return tuple(session.scalars(select(ClassRow.class_id).order_by(ClassRow.class_id)))


def merged_classes(session: Session) -> dict[str, str]:
    """Return by merged class the class that it is now; one that was merged itself is followed to its end."""
    rows = select(ClassRow.class_id, ClassRow.merged_into).where(ClassRow.state == MERGED).order_by(ClassRow.class_id)
    direct = {class_id: str(into) for class_id, into in session.execute(rows)}
    found = {}
    for class_id, target in direct.items():
        into = target
        while into in direct:
            into = direct[into]
        found[class_id] = into
    return found


def as_merged(merged: Mapping[str, str]) -> tuple[MergedClass, ...]:
    """Return merged classes as work names them."""
    return tuple(MergedClass(class_id, into) for class_id, into in merged.items())


def given_up(session: Session) -> tuple[str, ...]:
    """Return the classes that an operator retired or rejected: their sounds are not to be reported again."""
    return classes_in_state(session, RETIRED, REJECTED)


def set_columns(session: Session, classes: Iterable[ClassInfo], left: str) -> None:
    """Make classes the fleet's, in this order; a class that has been one and is not among them gets another state.

    Args:
        session: a writing one.
        classes: all classes of a public set. One that no row names is inserted.
        left: state of the others.
    """
    session.execute(update(ClassRow).where(ClassRow.state == ACTIVE).values(state=left, position=None, folded=None))
    taken: list[str] = []
    for position, info in enumerate(classes):
        row = session.get(ClassRow, info.class_id)
        if row is None:
            row = ClassRow(class_id=info.class_id, name=info.name, discovered_in=info.discovered_in)
            session.add(row)
        name = unique_name(row.name, taken)
        taken.append(name)
        row.name, row.folded, row.position = name, name.casefold(), position
        row.state, row.merged_into, row.proposal = ACTIVE, None, None
    session.flush()
