"""Devices enrol and leave; people see, admit and revoke them."""

import time
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request, Response

from aggregator_server.errors import DeviceRevokedError, InvitationSpentError, NotAuthenticatedError, TooManyError
from aggregator_server.fleet import devices, enrolment
from aggregator_server.fleet.device_changes import change_devices
from aggregator_server.fleet.enrolment import Entry
from aggregator_server.schemas import DeviceInfo, ReasonRequest
from aggregator_server.web.http_errors import documented
from aggregator_server.web.refused_requests import caller
from aggregator_server.web.routes import access
from aggregator_server.web.service import Service
from fleet_protocol.messages.rest import Enrolled, Enrolment

router = APIRouter(tags=["devices"])

DeviceId = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]
Action = Literal["admit", "quarantine", "release"]
_NAMED = "device_not_found invalid_request"


@router.post(
    "/v1/devices",
    summary="Enrol a device",
    responses=documented(
        "unauthorised invitation_spent device_revoked device_taken secret_taken",
        "too_large invalid_request feature_mismatch too_many",
    ),
)
async def enrol(
    request: Request, service: access.CurrentService, entry: access.EntryOfCaller, enrolment: Enrolment
) -> Enrolled:
    """Take a device into the fleet, or update what the server knows of it.

    From then on its secret is its bearer token, also for enrolling again. It takes part in rounds that open later.
    """
    enrolled = await service.for_device(_enrol, request, service, entry, enrolment)
    await service.flushed()
    return enrolled


def _enrol(request: Request, service: Service, entry: Entry, message: Enrolment) -> Enrolled:
    try:
        return enrolment.enrol(service.store, message, time.time(), entry)
    except (InvitationSpentError, NotAuthenticatedError) as error:
        service.refused_requests.refuse(request, error)
    except TooManyError:
        service.refused_requests.note_limit(entry.by, "devices of a token")
        raise
    except DeviceRevokedError as error:
        service.refused_requests.note_revoked(caller(request, f"device {error.device_id}"))
        raise


@router.get("/v1/devices", **access.for_people(access.Viewer, "List the devices", _NAMED))
def list_devices(
    service: access.CurrentService,
    response: Response,
    after: Annotated[
        str | None, Query(pattern="^[0-9a-f]{32}$", description="only devices that come after this one")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=devices.LISTED, description="at most so many")] = devices.LISTED,
) -> tuple[DeviceInfo, ...]:
    """List the devices that ever enrolled, oldest first, revoked ones included.

    Where there are more, the header ``Link`` has the address of the next part (``rel="next"``).
    """
    found = devices.list_devices(service.store, after, limit + 1)
    if len(found) > limit:
        following = f"/v1/devices?after={found[limit - 1].device_id}&limit={limit}"
        response.headers["Link"] = f'<{following}>; rel="next"'
    return found[:limit]


@router.get("/v1/devices/me", summary="Show a device what is known of it", responses=documented(access.DEVICE_ERRORS))
async def me(service: access.CurrentService, device_id: access.AnyDevice) -> DeviceInfo:
    """Show the calling device."""
    return await service.for_device(devices.describe_device, service.store, device_id)


@router.delete("/v1/devices/me", summary="Leave the fleet", status_code=204, responses=documented(access.DEVICE_ERRORS))
async def leave(request: Request, service: access.CurrentService, device_id: access.AnyDevice) -> None:
    """Let the calling device go. Its secret is refused from then on."""
    by = caller(request, f"device {device_id}")
    await service.for_device(devices.leave, service.store, device_id, time.time(), by)
    service.wake()


@router.delete("/v1/devices/{device_id}", **access.for_people(access.Admin, "Revoke a device", _NAMED, status_code=204))
def revoke(service: access.CurrentService, by: access.By, device_id: DeviceId) -> None:
    """Shut a device out for good. An open round no longer waits for it and does not use its upload."""
    change_devices(service.store, [device_id], "revoke", time.time(), by)
    service.wake()


@router.post(
    "/v1/devices/{device_id}/{action}",
    **access.for_people(
        access.Operator,
        "Admit a device, put it in quarantine, or release it from there",
        _NAMED,
        "device_revoked feature_mismatch too_large",
    ),
)
def change(
    service: access.CurrentService,
    by: access.By,
    device_id: DeviceId,
    action: Action,
    wanted: ReasonRequest | None = None,
) -> DeviceInfo:
    """Change a device; ``quarantine`` needs a reason.

    A device that waits is admitted where the server runs with ``--approve``. Uploads of a device in quarantine do not
    count, also that of the open round, which does not wait for it; it still learns. The aggregator puts a device there
    itself whose uploads stand out, or are refused, again and again.
    """
    reason = "" if wanted is None else wanted.reason
    change_devices(service.store, [device_id], action, time.time(), by, reason)
    service.wake()
    return devices.describe_device(service.store, device_id)
