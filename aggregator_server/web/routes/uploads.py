"""Devices upload what they computed for a round."""

import time
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request

from aggregator_server import errors
from aggregator_server.rounds.devices.uploads import check_update, expected, note_update
from aggregator_server.store import Store
from aggregator_server.store.blobs import Incoming
from aggregator_server.store.free_space import require_room
from aggregator_server.web.http_errors import documented
from aggregator_server.web.routes.access import DEVICE_ERRORS, CurrentService, Device
from aggregator_server.web.routes.blobs import BINARY_BODY
from aggregator_server.web.routes.rounds import RoundId
from aggregator_server.web.service import Service
from fleet_protocol.messages import Receipt, Update

router = APIRouter(tags=["work"])


@router.put(
    "/v1/rounds/{round_id}/update",
    summary="Upload what the device computed",
    openapi_extra=BINARY_BODY,
    responses=documented(
        DEVICE_ERRORS,
        "not_selected round_not_found round_closed duplicate_update upload_replaced busy too_large",
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
            raise errors.RefusedError(
                "digest_mismatch",
                f"the body's SHA-256 is {incoming.sha256}, X-Content-SHA256 says {x_content_sha256}; send it again",
            )
        try:
            receipt = await _accept(service, round_id, device_id, incoming, found)
        finally:  # also where an upload was refused: a round does not wait for a device in quarantine
            service.scheduler.wake()
    await service.flushed()
    return receipt


async def _accept(service: Service, round_id: int, device_id: str, incoming: Incoming, found: Any) -> Receipt:  # noqa: ANN401
    """Check an upload, put it on the disk and note it; one that is there already changes nothing."""
    now = time.time()
    update = await service.for_device(check_update, service.store, round_id, device_id, incoming, now, found)
    if update is None:
        return Receipt(round_id, incoming.sha256, repeated=True)
    return await service.on_disk(_keep, service.store, update, incoming, now)


def _keep(store: Store, update: Update, incoming: Incoming, now: float) -> Receipt:
    return note_update(store, update, incoming.keep(), now)
