"""The public set, and the blobs that devices fetch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Annotated, BinaryIO

from fastapi import APIRouter, Path, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from aggregator_server.errors import (
    BlobNotFoundError,
    FleetFeaturesError,
    InvalidRequestError,
    MalformedPublicSetError,
    PublicSetInUseError,
    PublicSetNotFoundError,
    RoundOpenError,
    TooLargeError,
)
from aggregator_server.fleet import public_sets
from aggregator_server.rounds.publishing import describe_public_set, publish_public_set
from aggregator_server.schemas import PublicSetInfo
from aggregator_server.web.http_errors import documented
from aggregator_server.web.routes.access import ADMIN_ERRORS, DEVICE_ERRORS, Admin, CurrentService, Member
from aggregator_server.web.routes.bodies import BINARY, BINARY_BODY

router = APIRouter(tags=["public set"])
_CHUNK = 256 * 1024


@router.put(
    "/v1/public-set",
    summary="Publish the public set",
    dependencies=[Admin],
    openapi_extra=BINARY_BODY,
    responses=documented(
        *ADMIN_ERRORS, RoundOpenError, PublicSetInUseError, FleetFeaturesError, TooLargeError, MalformedPublicSetError
    ),
)
async def publish(service: CurrentService, request: Request) -> PublicSetInfo:
    """Publish a public set (safetensors, see docs/protocol.md); the current one again changes nothing.

    It can be replaced until the fleet has a consensus on it.
    """
    with service.store.blobs.receive() as incoming:
        async for chunk in request.stream():
            incoming.write(chunk)
        return await run_in_threadpool(publish_public_set, service.store, incoming)


@router.get(
    "/v1/public-set",
    summary="Describe the public set",
    dependencies=[Member],
    responses=documented(*DEVICE_ERRORS, PublicSetNotFoundError),
)
def describe(service: CurrentService) -> PublicSetInfo:
    """Say which public set is the current one, and how its features were computed."""
    return describe_public_set(service.store)


@router.get(
    "/v1/blobs/{sha256}",
    summary="Fetch a public set, a consensus, a model or its weights",
    dependencies=[Member],
    response_class=StreamingResponse,
    responses={200: {"content": BINARY}, **documented(*DEVICE_ERRORS, BlobNotFoundError, InvalidRequestError)},
)
def blob(service: CurrentService, sha256: Annotated[str, Path(pattern="^[0-9a-f]{64}$")]) -> StreamingResponse:
    """Return a blob's bytes; their SHA-256 is its name."""
    public_sets.require_served(service.store, sha256)
    file = service.store.blobs.path(sha256).open("rb")
    size = os.fstat(file.fileno()).st_size
    return StreamingResponse(
        _chunks(file), media_type="application/octet-stream", headers={"Content-Length": str(size)}
    )


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while chunk := file.read(_CHUNK):
            yield chunk
