"""The fleet's classes."""

import time
from typing import Annotated

from fastapi import APIRouter, Path

from aggregator_server import errors
from aggregator_server.fleet import classes
from aggregator_server.fleet.audit import Actor
from aggregator_server.schemas import ClassChange, ClassDetail
from aggregator_server.undo.class_changes import approve_class, merge_class, remove_class, split_class
from aggregator_server.undo.reports import describe_class, list_class_history
from aggregator_server.web.http_errors import documented
from aggregator_server.web.routes.access import (
    MEMBER_ERRORS,
    PERSON_ERRORS,
    By,
    CurrentService,
    Member,
    Operator,
    Viewer,
)
from fleet_protocol.messages import ClassInfo

router = APIRouter(tags=["classes"])
_CHANGE_ERRORS = (
    *PERSON_ERRORS,
    errors.ClassNotFoundError,
    errors.RoundOpenError,
    errors.RoundNotDoneError,
    errors.InvalidRequestError,
)
ClassId = Annotated[str, Path(max_length=64)]


@router.get("/v1/classes", summary="List the classes", dependencies=[Member], responses=documented(*MEMBER_ERRORS))
def list_classes(service: CurrentService) -> tuple[ClassInfo, ...]:
    """List the fleet's classes in the order of the consensus' columns."""
    return classes.list_classes(service.store)


@router.get(
    "/v1/class-history",
    summary="List all classes that ever were, and those that wait",
    dependencies=[Viewer],
    responses=documented(*PERSON_ERRORS),
)
def list_history(service: CurrentService) -> tuple[ClassDetail, ...]:
    """List the classes that the fleet has, had or may get, with who reported them."""
    return list_class_history(service.store)


@router.patch(
    "/v1/classes/{class_id}",
    summary="Rename, merge, split or approve a class",
    dependencies=[Operator],
    responses=documented(*_CHANGE_ERRORS, errors.ClassNameTakenError, errors.TooManyClassesError, errors.TooLargeError),
)
def change(service: CurrentService, by: By, class_id: ClassId, wanted: ClassChange) -> ClassDetail:
    """Make one change of a class; devices learn it with their next work. A split answers with the new class."""
    changed = _change(service, by, class_id, wanted)
    service.new_work.notify()
    return describe_class(service.store, changed)


@router.delete(
    "/v1/classes/{class_id}",
    summary="Retire a class, or reject one that waits",
    dependencies=[Operator],
    responses=documented(*_CHANGE_ERRORS, errors.LastClassError),
)
def remove(service: CurrentService, by: By, class_id: ClassId) -> ClassDetail:
    """Take a class out of the fleet: its rows, its columns, and its output on every device that only adopted it."""
    remove_class(service.store, class_id, time.time(), by)
    service.new_work.notify()
    return describe_class(service.store, class_id)


def _change(service: CurrentService, by: Actor, class_id: str, wanted: ClassChange) -> str:
    """Make the change, and return the class that it is about."""
    asked = (wanted.merge_into is not None, wanted.approve, bool(wanted.split_off))
    if sum(asked) > 1 or (wanted.merge_into is not None and wanted.name is not None):
        raise errors.InvalidRequestError("one request makes one change: merge_into, approve or split_off")
    now = time.time()
    if wanted.split_off:
        if wanted.name is None:
            raise errors.InvalidRequestError("split_off needs a name for the new class")
        return split_class(service.store, class_id, wanted.split_off, wanted.name, now, by)
    if wanted.merge_into is not None:
        merge_class(service.store, class_id, wanted.merge_into, now, by)
        return class_id
    if wanted.name is None and not wanted.approve:
        raise errors.InvalidRequestError("nothing to change: give a name, merge_into, approve or split_off")
    if wanted.name is not None:
        classes.rename_class(service.store, class_id, wanted.name, by)
    if wanted.approve:
        approve_class(service.store, class_id, now, by)
    return class_id
