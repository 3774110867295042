"""What administrators publish, the public set and the shared model; devices fetch both as blobs."""

import time
from collections.abc import Callable
from typing import Any, BinaryIO, TypeVar

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from aggregator_server.errors import InvitationSpentError
from aggregator_server.fleet.audit import Actor
from aggregator_server.fleet.enrolment import Entry
from aggregator_server.fleet.publications import published_model
from aggregator_server.fleet.tokens import require_open
from aggregator_server.rounds.publishing import describe_model, describe_public_set, publish_model, publish_public_set
from aggregator_server.schemas import ModelInfo, PublicSetInfo
from aggregator_server.store.blobs import Incoming
from aggregator_server.store.free_space import require_room
from aggregator_server.store.store import Store
from aggregator_server.web.http_errors import documented
from aggregator_server.web.routes.access import By, CurrentService, EntryOfCaller, Operator, for_members, for_people
from aggregator_server.web.routes.blobs import BINARY, BINARY_BODY, stream
from aggregator_server.web.service import Service

router = APIRouter()
T = TypeVar("T", PublicSetInfo, ModelInfo)
_PUBLIC_SET: dict[str, Any] = {"tags": ["public set"]}
_MODEL: dict[str, Any] = {"tags": ["shared model"]}


@router.put(
    "/v1/public-set",
    openapi_extra=BINARY_BODY,
    **for_people(
        Operator,
        "Publish the public set",
        "round_open public_set_in_use fleet_features too_large malformed_public_set",
        **_PUBLIC_SET,
    ),
)
async def publish_set(service: CurrentService, by: By, request: Request) -> PublicSetInfo:
    """Publish a public set (safetensors, see docs/protocol.md); the current one again changes nothing.

    It can be replaced until the fleet has a consensus on it.
    """
    return await _receive(service, request, publish_public_set, by)


@router.get("/v1/public-set", **for_members("Describe the public set", "public_set_not_found", **_PUBLIC_SET))
def describe_set(service: CurrentService) -> PublicSetInfo:
    """Say which public set is the current one, and how its features were computed."""
    return describe_public_set(service.store)


@router.put(
    "/v1/model",
    openapi_extra=BINARY_BODY,
    **for_people(
        Operator,
        "Publish the shared model",
        "round_open model_too_small too_large malformed_model feature_mismatch",
        **_MODEL,
    ),
)
async def publish_bundle(service: CurrentService, by: By, request: Request) -> ModelInfo:
    """Publish a bundle as the fleet's shared model; the current one again changes nothing.

    Another one starts a new history: rounds begin with its own weights.
    """
    return await _receive(service, request, publish_model, by)


@router.get("/v1/model", **for_members("Describe the shared model", "model_not_found", **_MODEL))
def describe_shared(service: CurrentService) -> ModelInfo:
    """Say which model the fleet shares, and which weights it has by now."""
    return describe_model(service.store)


@router.get(
    "/v1/model/bundle",
    summary="Fetch the bundle that a new device may start with",
    tags=["shared model"],
    response_class=StreamingResponse,
    responses={200: {"content": BINARY}, **documented("unauthorised invitation_spent device_revoked model_not_found")},
)
async def bundle(request: Request, service: CurrentService, entry: EntryOfCaller) -> Response:
    """Return the shared model's bundle as it was published, to a device that has yet to enrol."""
    try:
        return await stream(service, lambda: _open(service.store, entry))
    except InvitationSpentError as error:
        await service.for_device(service.refused_requests.refuse, request, error)
        raise


def _open(store: Store, entry: Entry) -> BinaryIO:
    with store.reading() as session:
        if entry.invitation_id is not None:
            require_open(session, entry.invitation_id, time.time())
        return store.blobs.open(published_model(session).sha256)


async def _receive(service: Service, request: Request, publish: Callable[[Store, Incoming, Actor], T], by: Actor) -> T:
    require_room(service.store.blobs.folder)
    with service.store.blobs.receive() as incoming:
        async for chunk in request.stream():
            incoming.write(chunk)
        return await run_in_threadpool(publish, service.store, incoming, by)
