"""Downloads: public sets, consensuses, models and weights, by the SHA-256 of their bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Annotated, BinaryIO

from fastapi import APIRouter, Path
from fastapi.responses import StreamingResponse

from aggregator_server.errors import BlobNotFoundError, InvalidRequestError
from aggregator_server.fleet.public_sets import require_served
from aggregator_server.web.http_errors import documented
from aggregator_server.web.routes.access import MEMBER_ERRORS, CurrentService, Member
from aggregator_server.web.routes.bodies import BINARY

router = APIRouter(tags=["blobs"])
_CHUNK = 256 * 1024


@router.get(
    "/v1/blobs/{sha256}",
    summary="Fetch a public set, a consensus, a model or its weights",
    dependencies=[Member],
    response_class=StreamingResponse,
    responses={200: {"content": BINARY}, **documented(*MEMBER_ERRORS, BlobNotFoundError, InvalidRequestError)},
)
def blob(service: CurrentService, sha256: Annotated[str, Path(pattern="^[0-9a-f]{64}$")]) -> StreamingResponse:
    """Return a blob's bytes; their SHA-256 is its name."""
    require_served(service.store, sha256)
    file = service.store.blobs.path(sha256).open("rb")
    size = os.fstat(file.fileno()).st_size
    return StreamingResponse(
        _chunks(file), media_type="application/octet-stream", headers={"Content-Length": str(size)}
    )


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while chunk := file.read(_CHUNK):
            yield chunk
