"""People let rounds open by themselves."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Path

from aggregator_server import errors
from aggregator_server.rounds import schedules
from aggregator_server.schemas import ScheduleInfo, ScheduleRequest
from aggregator_server.web.http_errors import documented
from aggregator_server.web.routes.access import PERSON_ERRORS, By, CurrentService, Operator, Viewer

router = APIRouter(tags=["schedules"])
ScheduleId = Annotated[int, Path(ge=1, lt=2**31)]


@router.post(
    "/v1/schedules",
    summary="Let rounds open by themselves",
    status_code=201,
    dependencies=[Operator],
    responses=documented(
        *PERSON_ERRORS,
        errors.ModelReplacedError,
        errors.TooLargeError,
        errors.InvalidRequestError,
        errors.UnknownStrategyError,
        errors.InvalidPlanError,
    ),
)
def add_schedule(service: CurrentService, by: By, wanted: ScheduleRequest) -> ScheduleInfo:
    """Open rounds every day at a time, every so many seconds, or one after the other."""
    made = schedules.add_schedule(service.store, wanted, time.time(), by)
    service.wake()
    return made


@router.get("/v1/schedules", summary="List the schedules", dependencies=[Viewer], responses=documented(*PERSON_ERRORS))
def list_schedules(service: CurrentService) -> tuple[ScheduleInfo, ...]:
    """List the schedules that go on, oldest first."""
    return schedules.list_schedules(service.store)


@router.delete(
    "/v1/schedules/{schedule_id}",
    summary="End a schedule",
    status_code=204,
    dependencies=[Operator],
    responses=documented(*PERSON_ERRORS, errors.ScheduleNotFoundError, errors.InvalidRequestError),
)
def end(service: CurrentService, by: By, schedule_id: ScheduleId) -> None:
    """Open no more rounds by a schedule. Its open round goes on to its end; a continuous one that waits ends."""
    schedules.end_schedule(service.store, schedule_id, time.time(), by)
    service.wake()
