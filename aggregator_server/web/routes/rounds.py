"""People open, watch and cancel rounds."""

import time
from typing import Annotated

from fastapi import APIRouter, Path, Query

from aggregator_server.operator_changes.restore_and_undo import restore_round
from aggregator_server.rounds import opening
from aggregator_server.rounds.lifecycle import cancel_round
from aggregator_server.rounds.replies import describe_round, list_rounds, summarise_round
from aggregator_server.schemas import RoundDetail, RoundRequest, RoundSummary
from aggregator_server.web.routes.access import By, CurrentService, Operator, Viewer, for_people

router = APIRouter(tags=["rounds"])

RoundId = Annotated[int, Path(ge=1, lt=2**31)]


@router.post(
    "/v1/rounds",
    status_code=201,
    **for_people(
        Operator,
        "Open a round",
        "round_open no_public_set no_model model_too_small no_devices too_large",
        "invalid_request unknown_strategy invalid_plan",
    ),
)
def open_round(service: CurrentService, by: By, wanted: RoundRequest) -> RoundSummary:
    """Open a round for the devices that are enrolled now, and wake them. One round may be open at a time."""
    round_id = opening.open_round(service.store, wanted, time.time(), by)
    service.wake()
    return summarise_round(service.store, round_id)


@router.get("/v1/rounds", **for_people(Viewer, "List rounds", "invalid_request"))
def show_rounds(
    service: CurrentService,
    before: Annotated[int | None, Query(ge=1, lt=2**31, description="only rounds with a smaller number")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="at most so many")] = 100,
) -> tuple[RoundSummary, ...]:
    """List rounds, newest first."""
    return list_rounds(service.store, before, limit)


@router.get("/v1/rounds/{round_id}", **for_people(Viewer, "Show a round", "round_not_found invalid_request"))
def show_round(service: CurrentService, round_id: RoundId) -> RoundDetail:
    """Show a round's plan, its devices with their metrics, the weights of the average, and what was discovered."""
    return describe_round(service.store, round_id)


@router.delete(
    "/v1/rounds/{round_id}", **for_people(Operator, "Cancel a round", "round_not_found round_closed invalid_request")
)
def cancel(service: CurrentService, by: By, round_id: RoundId) -> RoundSummary:
    """End an open round without a result."""
    cancel_round(service.store, round_id, time.time(), by)
    service.wake()
    return summarise_round(service.store, round_id)


@router.post(
    "/v1/rounds/{round_id}/restore",
    status_code=201,
    **for_people(
        Operator,
        "Roll the fleet back to the state after a round",
        "round_not_found round_not_done round_open invalid_request",
    ),
)
def restore(service: CurrentService, by: By, round_id: RoundId) -> RoundSummary:
    """Bring back public set, consensus, weights, prototypes and classes; devices follow with their next work."""
    restored = restore_round(service.store, round_id, time.time(), by)
    service.wake()
    return summarise_round(service.store, restored)
