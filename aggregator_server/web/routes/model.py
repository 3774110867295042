"""The shared model that administrators publish; devices fetch it as a blob."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from aggregator_server.errors import (
    ForeignFeaturesError,
    MalformedModelError,
    ModelNotFoundError,
    ModelTooSmallError,
    RoundOpenError,
    TooLargeError,
)
from aggregator_server.rounds.publishing import describe_model, publish_model
from aggregator_server.schemas import ModelInfo
from aggregator_server.store.free_space import require_room
from aggregator_server.web.http_errors import documented
from aggregator_server.web.routes.access import MEMBER_ERRORS, PERSON_ERRORS, By, CurrentService, Member, Operator
from aggregator_server.web.routes.bodies import BINARY_BODY

router = APIRouter(tags=["shared model"])


@router.put(
    "/v1/model",
    summary="Publish the shared model",
    dependencies=[Operator],
    openapi_extra=BINARY_BODY,
    responses=documented(
        *PERSON_ERRORS, RoundOpenError, ModelTooSmallError, TooLargeError, MalformedModelError, ForeignFeaturesError
    ),
)
async def publish(service: CurrentService, by: By, request: Request) -> ModelInfo:
    """Publish a bundle as the fleet's shared model; the current one again changes nothing.

    Another one starts a new history: rounds begin with its own weights.
    """
    require_room(service.store.blobs.folder)
    with service.store.blobs.receive() as incoming:
        async for chunk in request.stream():
            incoming.write(chunk)
        return await run_in_threadpool(publish_model, service.store, incoming, by)


@router.get(
    "/v1/model",
    summary="Describe the shared model",
    dependencies=[Member],
    responses=documented(*MEMBER_ERRORS, ModelNotFoundError),
)
def describe(service: CurrentService) -> ModelInfo:
    """Say which model the fleet shares, and which weights it has by now."""
    return describe_model(service.store)
