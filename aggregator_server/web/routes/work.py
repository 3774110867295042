"""Devices ask for work, upload what they computed for a round, and report that they learned."""

import time
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.types import DecoratedCallable
from pydantic import TypeAdapter

from aggregator_server.errors import InvalidRequestError, RefusedError
from aggregator_server.rounds.devices.private_answers import Answer, take_answer
from aggregator_server.rounds.devices.uploads import check_update, expected, note_update
from aggregator_server.rounds.devices.work import acknowledge, next_work
from aggregator_server.store.blobs import Incoming
from aggregator_server.store.free_space import require_room
from aggregator_server.web.http_errors import documented
from aggregator_server.web.routes.access import DEVICE_ERRORS, CurrentService, Device
from aggregator_server.web.routes.blobs import BINARY_BODY
from aggregator_server.web.routes.rounds import RoundId
from aggregator_server.web.service import Service
from fleet_protocol.messages.private_rounds import EncryptedShares, PrivateStage, RevealedShares, RoundKeys
from fleet_protocol.messages.rest import Learned, Receipt, Work

router = APIRouter(tags=["work"])


_WORK = TypeAdapter(Work)


@router.get(
    "/v1/work",
    summary="Ask for work",
    response_model=Work,
    responses={
        204: {"description": "Nothing to do, for as long as the device cared to wait."},
        **documented(DEVICE_ERRORS, "invalid_request"),
    },
)
async def work(
    service: CurrentService,
    device_id: Device,
    wait_s: Annotated[float, Query(ge=0, le=60, description="how long to wait for work, in seconds")] = 0.0,
) -> Response:
    """Return the device's next work at once when there is some, else as soon as there is, else 204 after ``wait_s``.

    A device waits once: asking anew answers the former request with 204.
    """
    end = time.monotonic() + wait_s
    while True:
        event = service.new_work.subscribe(device_id)
        found = await service.for_device(next_work, service.store, device_id, time.time())
        if found is not None:
            return Response(_WORK.dump_json(found), media_type="application/json")
        left = end - time.monotonic()
        if left <= 0 or service.new_work.closed:
            return Response(status_code=204)
        await service.new_work.wait(event, left)
        if service.new_work.is_replaced(device_id, event):
            return Response(status_code=204)


@router.post(
    "/v1/rounds/{round_id}/learned",
    summary="Say that the device learned from a round",
    status_code=204,
    responses=documented(DEVICE_ERRORS, "round_not_found round_not_done too_large invalid_request"),
)
async def learned(service: CurrentService, device_id: Device, round_id: RoundId, message: Learned) -> None:
    """Note that the round's classes and consensus reached the device. Saying it twice changes nothing."""
    if message.round_id != round_id:
        raise InvalidRequestError(f"the message names round {message.round_id}, the address round {round_id}")
    await service.for_device(acknowledge, service.store, device_id, message)
    await service.flushed()


@router.put(
    "/v1/rounds/{round_id}/update",
    summary="Upload what the device computed",
    openapi_extra=BINARY_BODY,
    responses=documented(
        DEVICE_ERRORS,
        "not_selected round_not_found round_closed stage_over duplicate_update upload_replaced too_large",
        "invalid_request digest_mismatch malformed_update foreign_update wrong_public_set feature_mismatch",
    ),
)
async def upload(
    service: CurrentService,
    device_id: Device,
    round_id: RoundId,
    request: Request,
    x_content_sha256: Annotated[str | None, Header(description="SHA-256 of the body, 64 hex digits")] = None,
) -> Receipt:
    """Take in a device's upload (safetensors, see docs/protocol.md). The same bytes may be sent again at any time.

    Its body is read only if the round expects it. An upload that the device begins anew takes the place of the former.
    """
    announced = None if x_content_sha256 is None else x_content_sha256.lower()
    found = expected(service.store, round_id, device_id, announced, time.time())
    require_room(service.store.blobs.folder)
    with service.store.blobs.receive(owner=device_id) as incoming:
        async for chunk in request.stream():
            incoming.write(chunk)
        incoming.finish()
        if announced is not None and announced != incoming.sha256:
            raise RefusedError(
                "digest_mismatch",
                f"the body's SHA-256 is {incoming.sha256}, X-Content-SHA256 says {x_content_sha256}; send it again",
            )
        try:
            receipt = await _accept(service, round_id, device_id, incoming, found)
        finally:  # also where an upload was refused: a round does not wait for a device in quarantine
            service.scheduler.wake()
    await service.flushed()
    return receipt


_STAGE_CODES = (
    "not_selected round_not_found round_closed stage_over duplicate_update malformed_update too_large invalid_request"
)


def _put_stage(stage: PrivateStage, summary: str) -> Callable[[DecoratedCallable], DecoratedCallable]:
    responses = documented(DEVICE_ERRORS, _STAGE_CODES)
    return router.put(f"/v1/rounds/{{round_id}}/private/{stage}", summary=summary, status_code=204, responses=responses)


@_put_stage("keys", "Send the keys that the device drew for a private round")
async def private_keys(service: CurrentService, device_id: Device, round_id: RoundId, message: RoundKeys) -> None:
    """Take the keys of the stage ``keys``. The same may be sent again at any time, as in the stages after it."""
    await _answered(service, round_id, device_id, message)


@_put_stage("shares", "Send what the device's neighbours need to replace it")
async def private_shares(
    service: CurrentService, device_id: Device, round_id: RoundId, message: EncryptedShares
) -> None:
    """Take the encrypted shares of the stage ``shares``."""
    await _answered(service, round_id, device_id, message)


@_put_stage("unmask", "Reveal shares, so that the sum of the device's group can be read")
async def private_unmask(
    service: CurrentService, device_id: Device, round_id: RoundId, message: RevealedShares
) -> None:
    """Take the revealed shares of the stage ``unmask``."""
    await _answered(service, round_id, device_id, message)


async def _answered(service: Service, round_id: int, device_id: str, answer: Answer) -> None:
    await service.for_device(take_answer, service.store, round_id, device_id, answer, time.time())
    service.scheduler.wake()
    await service.flushed()


async def _accept(service: Service, round_id: int, device_id: str, incoming: Incoming, found: Any) -> Receipt:  # noqa: ANN401
    """Check an upload, put it on the disk and note it; one that is there already changes nothing."""
    now = time.time()
    update = await service.for_device(check_update, service.store, round_id, device_id, incoming, now, found)
    if update is None:
        return Receipt(round_id, incoming.sha256, repeated=True)
    return await service.on_disk(lambda: note_update(service.store, update, incoming.keep(), now))
