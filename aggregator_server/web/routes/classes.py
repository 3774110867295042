"""The fleet's classes."""

from __future__ import annotations

from fastapi import APIRouter

from aggregator_server import errors
from aggregator_server.fleet import classes
from aggregator_server.schemas import ClassName
from aggregator_server.web.http_errors import documented
from aggregator_server.web.routes.access import MEMBER_ERRORS, PERSON_ERRORS, By, CurrentService, Member, Operator
from fleet_protocol.messages import ClassInfo

router = APIRouter(tags=["classes"])


@router.get("/v1/classes", summary="List the classes", dependencies=[Member], responses=documented(*MEMBER_ERRORS))
def list_classes(service: CurrentService) -> tuple[ClassInfo, ...]:
    """List the fleet's classes in the order of the consensus' columns."""
    return classes.list_classes(service.store)


@router.patch(
    "/v1/classes/{class_id}",
    summary="Rename a class",
    dependencies=[Operator],
    responses=documented(
        *PERSON_ERRORS,
        errors.ClassNotFoundError,
        errors.ClassNameTakenError,
        errors.TooLargeError,
        errors.InvalidRequestError,
    ),
)
def rename(service: CurrentService, by: By, class_id: str, wanted: ClassName) -> ClassInfo:
    """Give a class another name; devices learn it with their next work."""
    return classes.rename_class(service.store, class_id, wanted.name, by)
