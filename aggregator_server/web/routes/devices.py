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
from aggregator_server.fleet import devices
from aggregator_server.schemas import DeviceInfo
from aggregator_server.web.http_errors import documented
from aggregator_server.web.routes.access import ADMIN_ERRORS, DEVICE_ERRORS, Admin, By, CurrentService, Device, Enroller
from fleet_protocol.messages import Enrolled, Enrolment

router = APIRouter(tags=["devices"])


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
def revoke(service: CurrentService, by: By, device_id: Annotated[str, Path(pattern="^[0-9a-f]{32}$")]) -> None:
    """Shut a device out for good. An open round no longer waits for it and does not use its upload."""
    devices.revoke(service.store, device_id, time.time(), by)
    service.scheduler.wake()
    service.new_work.notify()
