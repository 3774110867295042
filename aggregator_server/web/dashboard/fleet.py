"""The pages of the fleet: its devices, who waits to be admitted, who is in quarantine and why."""

import time
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response, StreamingResponse
from sqlalchemy import true

from aggregator_server.errors import AggregatorError, InvalidRequestError, RefusedError
from aggregator_server.fleet import devices
from aggregator_server.fleet.device_changes import change_devices
from aggregator_server.fleet.health import count_devices, count_outdated, health_of
from aggregator_server.store.tables import DeviceRow
from aggregator_server.web.dashboard.access import Admin, Operator, OwnForm, Signed, require
from aggregator_server.web.dashboard.fleet_list import PAGE, STATES, Wanted, as_csv, find_page
from aggregator_server.web.dashboard.page_route import PageRoute, to_page
from aggregator_server.web.dashboard.rendering import render
from aggregator_server.web.routes.access import CurrentService
from aggregator_server.web.routes.devices import DeviceId
from aggregator_server.web.service import Service

router = APIRouter(route_class=PageRoute, include_in_schema=False)

_ACTIONS = {"admit": "Admit", "quarantine": "Put in quarantine", "release": "Lift quarantine", "revoke": "Revoke"}


FromAddress = Annotated[Wanted, Depends(Wanted.of)]


@router.get("/fleet")
def show_fleet(request: Request, service: CurrentService, _visit: Signed, wanted: FromAddress) -> Response:
    """Show the devices that are looked for, a page of them."""
    now = time.time()
    found, following = find_page(service.store, wanted, now)
    with service.store.reading() as session:
        every = count_devices(session, true())
        present = every - count_devices(session, DeviceRow.revoked_at.is_not(None))
        outdated = count_outdated(session)
    return render(
        request,
        "fleet.html",
        found=found,
        following=following,
        all=every,
        present=present,
        outdated=outdated,
        wanted=wanted,
        states=STATES,
    )


@router.get("/fleet.csv")
def export(service: CurrentService, _visit: Signed, wanted: FromAddress) -> Response:
    """Return the devices that are looked for, all pages of them, as a file."""
    headers = {"Content-Disposition": 'attachment; filename="fleet.csv"'}
    parts = (text.encode("utf-8", "backslashreplace") for text in as_csv(service.store, wanted))
    return StreamingResponse(parts, media_type="text/csv", headers=headers)


@router.post("/fleet", dependencies=[Operator])
def change_chosen(request: Request, service: CurrentService, visit: Signed, form: OwnForm) -> Response:
    """Ask whether to do something with the devices that were ticked; once that is confirmed, do it with all or none."""
    action, chosen = form.text("action"), tuple(dict.fromkeys(form.all("device")))
    if action not in _ACTIONS or not 1 <= len(chosen) <= PAGE:
        raise InvalidRequestError("Choose devices of one page, and what to do with them.")
    if action == "revoke":
        require(visit, "admin")
    with service.store.reading() as session:
        listed = {device.device_id: device for device in devices.find_devices(session, chosen)}
    strangers = [device_id for device_id in chosen if device_id not in listed]
    if strangers:
        raise RefusedError("device_not_found", "One of the chosen devices is not of this fleet. Nothing was changed.")
    error = None
    if form.text("confirmed"):
        try:
            change_devices(service.store, chosen, action, time.time(), visit.actor, form.text("reason"))
        except AggregatorError as problem:
            error = problem
        else:
            service.wake()
            return to_page("/fleet", "changed")
    shown = [listed[device_id] for device_id in chosen]
    return render(
        request,
        "fleet_chosen.html",
        error=error,
        devices=shown,
        action=action,
        name=_ACTIONS[action],
        reason=form.text("reason"),
    )


@router.get("/fleet/{device_id}")
def show_device(request: Request, service: CurrentService, _visit: Signed, device_id: DeviceId) -> Response:
    """Show one device, and what can be done about it."""
    return _device_page(request, service, device_id)


def _device_page(
    request: Request, service: Service, device_id: str, typed: str = "", error: AggregatorError | None = None
) -> Response:
    device = devices.describe_device(service.store, device_id)
    health = health_of(device, time.time())
    return render(request, "device.html", error=error, device=device, health=health, typed=typed)


@router.post("/fleet/{device_id}/admit", dependencies=[Operator])
def admit(service: CurrentService, visit: Signed, _form: OwnForm, device_id: DeviceId) -> Response:
    """Let a device take part that waits for it."""
    change_devices(service.store, [device_id], "admit", time.time(), visit.actor)
    return to_page(f"/fleet/{device_id}", "admitted")


@router.post("/fleet/{device_id}/quarantine", dependencies=[Operator])
def quarantine(
    request: Request, service: CurrentService, visit: Signed, form: OwnForm, device_id: DeviceId
) -> Response:
    """Let a device's uploads no longer count; where the reason cannot be used, show it again, and why."""
    try:
        change_devices(service.store, [device_id], "quarantine", time.time(), visit.actor, form.text("reason"))
    except InvalidRequestError as error:
        return _device_page(request, service, device_id, form.text("reason"), error)
    service.scheduler.wake()
    return to_page(f"/fleet/{device_id}", "quarantined")


@router.post("/fleet/{device_id}/release", dependencies=[Operator])
def release(service: CurrentService, visit: Signed, _form: OwnForm, device_id: DeviceId) -> Response:
    """Let a device's uploads count again."""
    change_devices(service.store, [device_id], "release", time.time(), visit.actor)
    service.new_work.notify()
    return to_page(f"/fleet/{device_id}", "released")


@router.post("/fleet/{device_id}/revoke", dependencies=[Admin])
def revoke(service: CurrentService, visit: Signed, _form: OwnForm, device_id: DeviceId) -> Response:
    """Shut a device out for good."""
    change_devices(service.store, [device_id], "revoke", time.time(), visit.actor)
    service.wake()
    return to_page(f"/fleet/{device_id}", "revoked")
