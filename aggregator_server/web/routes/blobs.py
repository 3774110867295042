"""Downloads: public sets, consensuses, models and weights, by the SHA-256 of their bytes."""

import os
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, BinaryIO

from fastapi import APIRouter, Path
from fastapi.responses import Response, StreamingResponse

from aggregator_server.errors import BlobError
from aggregator_server.fleet.publications import require_served
from aggregator_server.store.store import Store
from aggregator_server.web.http_errors import documented
from aggregator_server.web.routes.access import MEMBER_ERRORS, CurrentService, Member
from aggregator_server.web.service import Service

BINARY: dict[str, Any] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
BINARY_BODY: dict[str, Any] = {"requestBody": {"required": True, "content": BINARY}}


router = APIRouter(tags=["blobs"])
_CHUNK = 256 * 1024
_OCTETS = "application/octet-stream"


@router.get(
    "/v1/blobs/{sha256}",
    summary="Fetch a public set, a consensus, a model or its weights",
    dependencies=[Member],
    response_class=StreamingResponse,
    responses={200: {"content": BINARY}, **documented(MEMBER_ERRORS, "blob_not_found invalid_request")},
)
async def blob(service: CurrentService, sha256: Annotated[str, Path(pattern="^[0-9a-f]{64}$")]) -> Response:
    """Return a blob's bytes; their SHA-256 is its name."""
    return await stream(service, lambda: _open(service.store, sha256))


async def stream(service: Service, opened: Callable[[], BinaryIO]) -> Response:
    """Return an answer that is the bytes of a file. ``opened``: opens the file; called in a thread for devices."""
    first, size, file = await service.for_device(_begin, opened)
    if file is None:
        return Response(first, media_type=_OCTETS)
    chunks = _chunks(service, first, file)
    return StreamingResponse(chunks, media_type=_OCTETS, headers={"Content-Length": str(size)})


def _open(store: Store, sha256: str) -> BinaryIO:
    require_served(store, sha256)
    try:
        return store.blobs.open(sha256)
    except BlobError as error:  # where the state is, is for the log
        raise FileNotFoundError(str(error)) from error


def _begin(opened: Callable[[], BinaryIO]) -> tuple[bytes, int, BinaryIO | None]:
    """Return a file's first bytes, its size, and the open file where it has more."""
    file = opened()
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if size > _CHUNK:
        return file.read(_CHUNK), size, file
    with file:
        return file.read(), size, None


async def _chunks(service: Service, first: bytes, file: BinaryIO) -> AsyncIterator[bytes]:
    with file:
        yield first
        while chunk := await service.for_device(file.read, _CHUNK):
            yield chunk
