"""The fleet's classes, in column order, and what people call them."""

from __future__ import annotations

import time

from sqlalchemy import select
from sqlalchemy.orm import Session

from aggregator_server.errors import ClassNameTakenError, ClassNotFoundError
from aggregator_server.fleet.audit import SERVER, Actor, audit
from aggregator_server.names import check_name
from aggregator_server.store import Store
from aggregator_server.store.tables import ClassRow
from fleet_protocol.messages import ClassInfo


def all_classes(session: Session) -> tuple[ClassInfo, ...]:
    """Return every class in column order."""
    columns = select(ClassRow.class_id, ClassRow.name, ClassRow.discovered_in).order_by(ClassRow.position)
    return tuple(ClassInfo(*row) for row in session.execute(columns))


def list_classes(store: Store) -> tuple[ClassInfo, ...]:
    """Return every class in column order."""
    with store.reading() as session:
        return all_classes(session)


def rename_class(store: Store, class_id: str, name: str, by: Actor = SERVER) -> ClassInfo:
    """Give a class another name; devices see it with their next work.

    Raises:
        ClassNotFoundError: there is no such class.
        ClassNameTakenError: another class has that name, if only in other case.
        InvalidRequestError: the name cannot be stored.
    """
    check_name(name, "a class's name")
    with store.writing() as session:
        row = session.get(ClassRow, class_id)
        if row is None:
            known = ", ".join(info.class_id for info in all_classes(session))
            raise ClassNotFoundError(f"there is no class {class_id!r}; known: {known or 'none'}")
        other = session.scalar(select(ClassRow).where(ClassRow.folded == name.casefold()))
        if other is not None and other.class_id != class_id:
            raise ClassNameTakenError(f"class {other.class_id!r} is called {other.name!r}; choose another name")
        audit(session, "class_renamed", by, time.time(), class_id=class_id, before=row.name, name=name)
        row.name, row.folded = name, name.casefold()
        return ClassInfo(row.class_id, row.name, row.discovered_in)
