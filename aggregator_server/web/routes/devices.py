"""Devices enrol; administrators see and revoke them."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Path

from aggregator_server.errors import (
    DeviceNotFoundError,
    DeviceRevokedError,
    DeviceTakenError,
    ForeignFeaturesError,
    InvalidRequestError,
    NotAuthenticatedError,
    SecretTakenError,
    TooLargeError,
)
from aggregator_server.fleet import conduct, devices
from aggregator_server.names import check_name
from aggregator_server.schemas import DeviceInfo, QuarantineRequest
from aggregator_server.web.http_errors import documented
from aggregator_server.web.routes.access import ADMIN_ERRORS, DEVICE_ERRORS, Admin, By, CurrentService, Device, Enroller
from fleet_protocol.messages import Enrolled, Enrolment

router = APIRouter(tags=["devices"])

DeviceId = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]


@router.post(
    "/v1/devices",
    summary="Enrol a device",
    dependencies=[Enroller],
    responses=documented(
        NotAuthenticatedError,
        DeviceRevokedError,
        DeviceTakenError,
        SecretTakenError,
        TooLargeError,
        InvalidRequestError,
        ForeignFeaturesError,
    ),
)
def enrol(service: CurrentService, by: By, enrolment: Enrolment) -> Enrolled:
    """Take a device into the fleet, or update what the server knows of it.

    From then on its secret is its bearer token. It takes part in rounds that open later.
    """
    return devices.enrol(service.store, enrolment, time.time(), by)


@router.get("/v1/devices", summary="List the devices", dependencies=[Admin], responses=documented(*ADMIN_ERRORS))
def list_devices(service: CurrentService) -> tuple[DeviceInfo, ...]:
    """List every device that ever enrolled, oldest first, revoked ones included."""
    return devices.list_devices(service.store)


@router.get("/v1/devices/me", summary="Show a device what is known of it", responses=documented(*DEVICE_ERRORS))
def me(service: CurrentService, device_id: Device) -> DeviceInfo:
    """Show the calling device."""
    return devices.describe_device(service.store, device_id)


@router.delete(
    "/v1/devices/{device_id}",
    summary="Revoke a device",
    status_code=204,
    dependencies=[Admin],
    responses=documented(*ADMIN_ERRORS, DeviceNotFoundError, InvalidRequestError),
)
def revoke(service: CurrentService, by: By, device_id: DeviceId) -> None:
    """Shut a device out for good. An open round no longer waits for it and does not use its upload."""
    devices.revoke(service.store, device_id, time.time(), by)
    service.scheduler.wake()
    service.new_work.notify()


@router.post(
    "/v1/devices/{device_id}/quarantine",
    summary="Put a device in quarantine",
    dependencies=[Admin],
    responses=documented(*ADMIN_ERRORS, DeviceNotFoundError, TooLargeError, InvalidRequestError),
)
def quarantine(service: CurrentService, by: By, device_id: DeviceId, wanted: QuarantineRequest) -> DeviceInfo:
    """Let a device's uploads no longer count, also that of the open round, which does not wait for it. It still learns.

    The aggregator does so itself with a device whose uploads stand out, or are refused, again and again.
    """
    check_name(wanted.reason, "a reason")
    conduct.quarantine(service.store, device_id, wanted.reason, time.time(), by)
    service.scheduler.wake()
    return devices.describe_device(service.store, device_id)


@router.post(
    "/v1/devices/{device_id}/release",
    summary="Release a device from quarantine",
    dependencies=[Admin],
    responses=documented(*ADMIN_ERRORS, DeviceNotFoundError, InvalidRequestError),
)
def release(service: CurrentService, by: By, device_id: DeviceId) -> DeviceInfo:
    """Let a device's uploads count again, from the next round on that asks for them."""
    conduct.release(service.store, device_id, time.time(), by)
    service.new_work.notify()
    return devices.describe_device(service.store, device_id)
