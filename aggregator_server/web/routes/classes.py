"""The fleet's classes."""

import time
from typing import Annotated

from fastapi import APIRouter, Path

from aggregator_server.errors import InvalidRequestError
from aggregator_server.fleet import classes
from aggregator_server.fleet.class_backing import approve_class
from aggregator_server.fleet.class_details import describe_class, list_class_history
from aggregator_server.operator_changes.merge_and_retire import merge_class, remove_class
from aggregator_server.schemas import ClassChange, ClassDetail
from aggregator_server.web.routes.access import By, CurrentService, Operator, Viewer, for_members, for_people
from fleet_protocol.messages.rest import ClassInfo

router = APIRouter(tags=["classes"])
_CHANGE_ERRORS = "class_not_found round_open round_not_done invalid_request"
ClassId = Annotated[str, Path(max_length=64)]


@router.get("/v1/classes", **for_members("List the classes"))
def list_classes(service: CurrentService) -> tuple[ClassInfo, ...]:
    """List the fleet's classes in the order of the consensus' columns."""
    return classes.list_classes(service.store)


@router.get("/v1/class-history", **for_people(Viewer, "List all classes that ever were"))
def list_history(service: CurrentService) -> tuple[ClassDetail, ...]:
    """List the classes that the fleet has or had, with who reported them."""
    return list_class_history(service.store)


@router.patch(
    "/v1/classes/{class_id}",
    **for_people(
        Operator, "Rename or approve a class, or merge it into another", _CHANGE_ERRORS, "class_name_taken too_large"
    ),
)
def change(service: CurrentService, by: By, class_id: ClassId, wanted: ClassChange) -> ClassDetail:
    """Make one change of a class; devices learn it with their next work."""
    if sum((wanted.name is not None, wanted.merge_into is not None, wanted.approve)) != 1:
        raise InvalidRequestError("one request makes one change: give a name, merge_into, or approve: true")
    if wanted.approve:
        approve_class(service.store, class_id, by)
    elif wanted.name is not None:
        classes.rename_class(service.store, class_id, wanted.name, by)
    else:
        merge_class(service.store, class_id, str(wanted.merge_into), time.time(), by)
    service.new_work.notify()
    return describe_class(service.store, class_id)


@router.delete("/v1/classes/{class_id}", **for_people(Operator, "Retire a class", _CHANGE_ERRORS, "last_class"))
def remove(service: CurrentService, by: By, class_id: ClassId) -> ClassDetail:
    """Take a class out of the fleet: its rows, its columns, and its output on every device that only adopted it."""
    remove_class(service.store, class_id, time.time(), by)
    service.new_work.notify()
    return describe_class(service.store, class_id)
