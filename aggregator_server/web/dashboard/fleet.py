"""The pages of the fleet: its devices, who waits to be admitted, who is in quarantine and why."""

from __future__ import annotations

import time

from fastapi import APIRouter, Request
from fastapi.responses import Response

from aggregator_server.fleet import conduct, devices
from aggregator_server.schemas import DeviceInfo
from aggregator_server.web.dashboard.access import Admin, Operator, OwnForm, Signed
from aggregator_server.web.dashboard.going_on import to_page
from aggregator_server.web.dashboard.page_route import PageRoute
from aggregator_server.web.dashboard.rendering import render
from aggregator_server.web.metrics import SEEN_S
from aggregator_server.web.routes.access import CurrentService
from aggregator_server.web.routes.devices import DeviceId

router = APIRouter(route_class=PageRoute, include_in_schema=False)

_SHOWN = 200


def health_of(device: DeviceInfo, now: float) -> str:
    """Return in one word how a device is: the first of these that holds.

    ``revoked``, ``waiting``, ``quarantine``, ``trouble`` (it says why it cannot contribute), ``silent`` (not heard of
    for 15 minutes), ``suspicious``, ``well``.
    """
    if device.revoked_at is not None:
        return "revoked"
    if device.waiting:
        return "waiting"
    if device.conduct.quarantined_at is not None:
        return "quarantine"
    if device.trouble:
        return "trouble"
    if now - device.seen_at.timestamp() > SEEN_S:
        return "silent"
    return "suspicious" if device.conduct.suspicion else "well"


@router.get("/fleet")
def show_fleet(
    request: Request, service: CurrentService, _visit: Signed, search: str = "", outdated: bool = False
) -> Response:
    """Show the devices, the outdated ones alone, or those of which a word is looked for.

    Those that need somebody come first.
    """
    now, word = time.time(), search.strip().casefold()
    listed = devices.list_devices(service.store)
    wanted = [device for device in listed if word in _words(device) and (device.outdated or not outdated)]
    found = [(device, health_of(device, now)) for device in wanted]
    order = ("waiting", "quarantine", "trouble", "suspicious", "silent", "well", "revoked")
    found.sort(key=lambda pair: order.index(pair[1]))
    hidden = max(0, len(found) - _SHOWN)
    return render(
        request,
        "fleet.html",
        devices=found[:_SHOWN],
        hidden=hidden,
        search=search.strip(),
        all=len(listed),
        present=sum(device.revoked_at is None for device in listed),
        outdated=sum(device.outdated for device in listed),
        only_outdated=outdated,
    )


def _words(device: DeviceInfo) -> str:
    """Return what a device is found by."""
    return "\n".join(
        (device.name, device.device_id, device.group or "", device.versions.program, *device.labels)
    ).casefold()


@router.get("/fleet/{device_id}")
def show_device(request: Request, service: CurrentService, _visit: Signed, device_id: DeviceId) -> Response:
    """Show one device, and what can be done about it."""
    device = devices.describe_device(service.store, device_id)
    return render(request, "device.html", device=device, health=health_of(device, time.time()))


@router.post("/fleet/{device_id}/admit", dependencies=[Operator])
def admit(service: CurrentService, visit: Signed, _form: OwnForm, device_id: DeviceId) -> Response:
    """Let a device take part that waits for it."""
    devices.admit(service.store, device_id, time.time(), visit.actor)
    return to_page(f"/fleet/{device_id}", "admitted")


@router.post("/fleet/{device_id}/quarantine", dependencies=[Operator])
def quarantine(service: CurrentService, visit: Signed, form: OwnForm, device_id: DeviceId) -> Response:
    """Let a device's uploads no longer count."""
    conduct.quarantine(service.store, device_id, form.text("reason"), time.time(), visit.actor)
    service.scheduler.wake()
    return to_page(f"/fleet/{device_id}", "quarantined")


@router.post("/fleet/{device_id}/release", dependencies=[Operator])
def release(service: CurrentService, visit: Signed, _form: OwnForm, device_id: DeviceId) -> Response:
    """Let a device's uploads count again."""
    conduct.release(service.store, device_id, time.time(), visit.actor)
    service.new_work.notify()
    return to_page(f"/fleet/{device_id}", "released")


@router.post("/fleet/{device_id}/revoke", dependencies=[Admin])
def revoke(service: CurrentService, visit: Signed, _form: OwnForm, device_id: DeviceId) -> Response:
    """Shut a device out for good."""
    devices.revoke(service.store, device_id, time.time(), visit.actor)
    service.wake()
    return to_page(f"/fleet/{device_id}", "revoked")
