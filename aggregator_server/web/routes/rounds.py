"""People open, watch and cancel rounds, or let them open by themselves."""

import time
from typing import Annotated

from fastapi import APIRouter, Path, Query

from aggregator_server.rounds import lifecycle, schedules
from aggregator_server.rounds.views.replies import describe_round, list_rounds, summarise_round
from aggregator_server.schemas import RoundDetail, RoundRequest, RoundSummary, ScheduleInfo, ScheduleRequest
from aggregator_server.undo.restoring import restore_round
from aggregator_server.web.http_errors import documented
from aggregator_server.web.routes.access import PERSON_ERRORS, By, CurrentService, Operator, Viewer

router = APIRouter()

RoundId = Annotated[int, Path(ge=1, lt=2**31)]


@router.post(
    "/v1/rounds",
    summary="Open a round",
    tags=["rounds"],
    status_code=201,
    dependencies=[Operator],
    responses=documented(
        PERSON_ERRORS,
        "round_open no_public_set no_model model_too_small model_replaced no_devices too_large",
        "invalid_request unknown_strategy invalid_plan",
    ),
)
def open_round(service: CurrentService, by: By, wanted: RoundRequest) -> RoundSummary:
    """Open a round for the devices that are enrolled now, and wake them. One round may be open at a time."""
    round_id = lifecycle.open_round(service.store, wanted, time.time(), by)
    service.wake()
    return summarise_round(service.store, round_id)


@router.get(
    "/v1/rounds",
    summary="List rounds",
    tags=["rounds"],
    dependencies=[Viewer],
    responses=documented(PERSON_ERRORS, "invalid_request"),
)
def show_rounds(
    service: CurrentService,
    before: Annotated[int | None, Query(ge=1, lt=2**31, description="only rounds with a smaller number")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="at most so many")] = 100,
) -> tuple[RoundSummary, ...]:
    """List rounds, newest first."""
    return list_rounds(service.store, before, limit)


@router.get(
    "/v1/rounds/{round_id}",
    summary="Show a round",
    tags=["rounds"],
    dependencies=[Viewer],
    responses=documented(PERSON_ERRORS, "round_not_found invalid_request"),
)
def show_round(service: CurrentService, round_id: RoundId) -> RoundDetail:
    """Show a round's plan, its devices with their metrics, the weights of the average, and what was discovered."""
    return describe_round(service.store, round_id)


@router.delete(
    "/v1/rounds/{round_id}",
    summary="Cancel a round",
    tags=["rounds"],
    dependencies=[Operator],
    responses=documented(PERSON_ERRORS, "round_not_found round_closed invalid_request"),
)
def cancel(service: CurrentService, by: By, round_id: RoundId) -> RoundSummary:
    """End an open round without a result."""
    lifecycle.cancel_round(service.store, round_id, time.time(), by)
    service.wake()  # a schedule may have waited for its end
    return summarise_round(service.store, round_id)


@router.post(
    "/v1/rounds/{round_id}/restore",
    summary="Roll the fleet back to the state after a round",
    tags=["rounds"],
    status_code=201,
    dependencies=[Operator],
    responses=documented(PERSON_ERRORS, "round_not_found round_not_done round_open invalid_request"),
)
def restore(service: CurrentService, by: By, round_id: RoundId) -> RoundSummary:
    """Bring back public set, consensus, weights, prototypes and classes; devices follow with their next work."""
    restored = restore_round(service.store, round_id, time.time(), by)
    service.wake()
    return summarise_round(service.store, restored)


ScheduleId = Annotated[int, Path(ge=1, lt=2**31)]


@router.post(
    "/v1/schedules",
    summary="Let rounds open by themselves",
    tags=["schedules"],
    status_code=201,
    dependencies=[Operator],
    responses=documented(PERSON_ERRORS, "model_replaced too_large invalid_request unknown_strategy invalid_plan"),
)
def add_schedule(service: CurrentService, by: By, wanted: ScheduleRequest) -> ScheduleInfo:
    """Open rounds every day at a time, or every so many seconds from now on."""
    made = schedules.add_schedule(service.store, wanted, time.time(), by)
    service.wake()
    return made


@router.get(
    "/v1/schedules",
    summary="List the schedules",
    tags=["schedules"],
    dependencies=[Viewer],
    responses=documented(PERSON_ERRORS),
)
def list_schedules(service: CurrentService) -> tuple[ScheduleInfo, ...]:
    """List the schedules that go on, oldest first."""
    return schedules.list_schedules(service.store)


@router.delete(
    "/v1/schedules/{schedule_id}",
    summary="End a schedule",
    tags=["schedules"],
    status_code=204,
    dependencies=[Operator],
    responses=documented(PERSON_ERRORS, "schedule_not_found invalid_request"),
)
def end(service: CurrentService, by: By, schedule_id: ScheduleId) -> None:
    """Open no more rounds by a schedule. Its open round goes on to its end."""
    schedules.end_schedule(service.store, schedule_id, time.time(), by)
    service.wake()
