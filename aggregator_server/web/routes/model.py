"""The shared model that administrators publish; devices fetch it as a blob."""

from __future__ import annotations

import time
from typing import BinaryIO

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from aggregator_server.errors import (
    DeviceRevokedError,
    ForeignFeaturesError,
    InvitationSpentError,
    MalformedModelError,
    ModelNotFoundError,
    ModelTooSmallError,
    NotAuthenticatedError,
    RoundOpenError,
    TooLargeError,
    TooManyError,
)
from aggregator_server.fleet.devices import Entry
from aggregator_server.fleet.invitations import require_open
from aggregator_server.fleet.shared_models import published_model
from aggregator_server.rounds.publishing import describe_model, publish_model
from aggregator_server.schemas import ModelInfo
from aggregator_server.store import Store
from aggregator_server.store.free_space import require_room
from aggregator_server.web.http_errors import documented
from aggregator_server.web.routes.access import (
    MEMBER_ERRORS,
    PERSON_ERRORS,
    By,
    CurrentService,
    EntryOfCaller,
    Member,
    Operator,
)
from aggregator_server.web.routes.blobs import stream
from aggregator_server.web.routes.bodies import BINARY, BINARY_BODY

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


@router.get(
    "/v1/model/bundle",
    summary="Fetch the bundle that a new device may start with",
    response_class=StreamingResponse,
    responses={
        200: {"content": BINARY},
        **documented(NotAuthenticatedError, InvitationSpentError, DeviceRevokedError, ModelNotFoundError, TooManyError),
    },
)
async def bundle(request: Request, service: CurrentService, entry: EntryOfCaller) -> Response:
    """Return the shared model's bundle as it was published, to a device that has yet to enrol."""
    try:
        return await stream(service, lambda: _open(service.store, entry))
    except InvitationSpentError as error:
        await service.for_device(service.guard.refuse, request, error)
        raise


def _open(store: Store, entry: Entry) -> BinaryIO:
    with store.reading() as session:
        if entry.invitation_id is not None:
            require_open(session, entry.invitation_id, time.time())
        return store.blobs.open(published_model(session).sha256)
