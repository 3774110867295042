"""Devices ask for work, and report that they learned."""

import time
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import TypeAdapter

from aggregator_server import errors
from aggregator_server.rounds.devices.work import acknowledge, next_work
from aggregator_server.web.http_errors import documented
from aggregator_server.web.routes.access import DEVICE_ERRORS, CurrentService, Device
from aggregator_server.web.routes.rounds import RoundId
from fleet_protocol.messages import Learned, Work

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
        raise errors.InvalidRequestError(f"the message names round {message.round_id}, the address round {round_id}")
    await service.for_device(acknowledge, service.store, device_id, message)
    await service.flushed()
