"""What devices do: ask for work, upload, and say that they learned."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from aggregator_server import errors
from aggregator_server.rounds.uploads import accept_update
from aggregator_server.rounds.work import acknowledge, next_work
from aggregator_server.web.http_errors import documented
from aggregator_server.web.routes.access import DEVICE_ERRORS, CurrentService, Device
from aggregator_server.web.routes.bodies import BINARY_BODY
from aggregator_server.web.routes.rounds import RoundId
from fleet_protocol.messages import Learned, Receipt, Work

router = APIRouter(tags=["work"])


@router.get(
    "/v1/work",
    summary="Ask for work",
    response_model=Work,
    responses={
        204: {"description": "Nothing to do, for as long as the device cared to wait."},
        **documented(*DEVICE_ERRORS, errors.InvalidRequestError),
    },
)
async def work(
    service: CurrentService,
    device_id: Device,
    wait_s: Annotated[float, Query(ge=0, le=60, description="how long to wait for work, in seconds")] = 0.0,
) -> Work | Response:
    """Return the device's next work at once when there is some, else as soon as there is, else 204 after ``wait_s``."""
    end = time.monotonic() + wait_s
    while True:
        event = service.new_work.subscribe()
        found = await run_in_threadpool(next_work, service.store, device_id, time.time())
        if found is not None:
            return found
        left = end - time.monotonic()
        if left <= 0 or service.new_work.closed:
            return Response(status_code=204)
        await service.new_work.wait(event, left)


@router.put(
    "/v1/rounds/{round_id}/update",
    summary="Upload what the device computed",
    openapi_extra=BINARY_BODY,
    responses=documented(
        *DEVICE_ERRORS,
        errors.NotSelectedError,
        errors.RoundNotFoundError,
        errors.RoundClosedError,
        errors.DuplicateUpdateError,
        errors.TooLargeError,
        errors.InvalidRequestError,
        errors.DigestMismatchError,
        errors.MalformedUpdateError,
        errors.ForeignUpdateError,
        errors.WrongPublicSetError,
        errors.ForeignFeaturesError,
    ),
)
async def upload(
    service: CurrentService,
    device_id: Device,
    round_id: RoundId,
    request: Request,
    x_content_sha256: Annotated[str | None, Header(description="SHA-256 of the body, 64 hex digits")] = None,
) -> Receipt:
    """Take in a device's upload (safetensors, see docs/protocol.md). The same bytes may be sent again at any time."""
    with service.store.blobs.receive() as incoming:
        async for chunk in request.stream():
            incoming.write(chunk)
        if x_content_sha256 is not None and x_content_sha256.lower() != incoming.sha256:
            raise errors.DigestMismatchError(
                f"the body's SHA-256 is {incoming.sha256}, X-Content-SHA256 says {x_content_sha256}; send it again"
            )
        receipt = await run_in_threadpool(accept_update, service.store, round_id, device_id, incoming, time.time())
    service.scheduler.wake()
    return receipt


@router.post(
    "/v1/rounds/{round_id}/learned",
    summary="Say that the device learned from a round",
    status_code=204,
    responses=documented(
        *DEVICE_ERRORS,
        errors.RoundNotFoundError,
        errors.RoundNotDoneError,
        errors.TooLargeError,
        errors.InvalidRequestError,
    ),
)
def learned(service: CurrentService, device_id: Device, round_id: RoundId, message: Learned) -> None:
    """Note that the round's classes and consensus reached the device. Saying it twice changes nothing."""
    if message.round_id != round_id:
        raise errors.InvalidRequestError(f"the message names round {message.round_id}, the address round {round_id}")
    acknowledge(service.store, device_id, message)
