"""The public set: administrators publish and see it; devices fetch it as a blob."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from aggregator_server.errors import (
    FleetFeaturesError,
    MalformedPublicSetError,
    PublicSetInUseError,
    PublicSetNotFoundError,
    RoundOpenError,
    TooLargeError,
)
from aggregator_server.rounds.publishing import describe_public_set, publish_public_set
from aggregator_server.schemas import PublicSetInfo
from aggregator_server.store.free_space import require_room
from aggregator_server.web.http_errors import documented
from aggregator_server.web.routes.access import MEMBER_ERRORS, PERSON_ERRORS, By, CurrentService, Member, Operator
from aggregator_server.web.routes.bodies import BINARY_BODY

router = APIRouter(tags=["public set"])


@router.put(
    "/v1/public-set",
    summary="Publish the public set",
    dependencies=[Operator],
    openapi_extra=BINARY_BODY,
    responses=documented(
        *PERSON_ERRORS, RoundOpenError, PublicSetInUseError, FleetFeaturesError, TooLargeError, MalformedPublicSetError
    ),
)
async def publish(service: CurrentService, by: By, request: Request) -> PublicSetInfo:
    """Publish a public set (safetensors, see docs/protocol.md); the current one again changes nothing.

    It can be replaced until the fleet has a consensus on it.
    """
    require_room(service.store.blobs.folder)
    with service.store.blobs.receive() as incoming:
        async for chunk in request.stream():
            incoming.write(chunk)
        return await run_in_threadpool(publish_public_set, service.store, incoming, by)


@router.get(
    "/v1/public-set",
    summary="Describe the public set",
    dependencies=[Member],
    responses=documented(*MEMBER_ERRORS, PublicSetNotFoundError),
)
def describe(service: CurrentService) -> PublicSetInfo:
    """Say which public set is the current one, and how its features were computed."""
    return describe_public_set(service.store)
