"""The pages of the fleet: its devices, who waits to be admitted, who is in quarantine and why."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from sqlalchemy import ColumnElement, and_, func, literal, select, true, tuple_
from sqlalchemy.orm import Session

from aggregator_server.errors import AggregatorError, InvalidRequestError
from aggregator_server.fleet import devices
from aggregator_server.fleet.device_changes import change_devices
from aggregator_server.fleet.devices import find_devices
from aggregator_server.fleet.health import SEEN_S, count_devices, count_outdated, health_of, is_outdated_one
from aggregator_server.fleet.reputation import QUARANTINED, SUSPECTED
from aggregator_server.schemas import DeviceInfo
from aggregator_server.store.expressions import folded
from aggregator_server.store.store import Tables
from aggregator_server.store.tables import IS_ACTIVE, DeviceRow
from aggregator_server.web.dashboard.access import Operator, OwnForm, Signed
from aggregator_server.web.dashboard.rendering import PageRoute, render, to_page
from aggregator_server.web.routes.access import CurrentService
from aggregator_server.web.routes.devices import DeviceId
from aggregator_server.web.service import Service
from fleet_protocol.limits import NAME_LENGTH

PAGE = 100  # devices
STATES = {
    "online": "heard of lately",
    "silent": "not heard of",
    "waiting": "waits to be admitted",
    "quarantine": "in quarantine",
    "trouble": "cannot contribute",
    "suspicious": "stood out",
    "outdated": "outdated",
    "well": "well",
    "revoked": "revoked",
}
_Listed = tuple[DeviceInfo, str]
_id: ColumnElement[str] = DeviceRow.device_id.expression
_name: ColumnElement[str] = folded(DeviceRow.name)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What somebody looks for."""

    search: str = ""  # part of a name or identifier; empty: every device
    state: str = ""  # one of ``STATES``; empty: any
    after: str = ""  # identifier of the last device of the page before; empty: the first page

    @classmethod
    def of(cls, search: str = "", state: str = "", after: str = "") -> Wanted:
        """Return what an address asks for; what it cannot ask for is ignored, and texts are cut to their bound."""
        return cls(search=_text(search), state=state if state in STATES else "", after=_text(after))

    @property
    def first(self) -> Wanted:
        """The first page of the same list."""
        return replace(self, after="")

    def address(self) -> str:
        """Return the address of this list."""
        fields = {"search": self.search, "state": self.state, "after": self.after}
        shown = {name: value for name, value in fields.items() if value}
        return f"/fleet?{urlencode(shown)}" if shown else "/fleet"


def _text(value: str) -> str:
    return value.replace("\0", "").strip()[:NAME_LENGTH]


def find_page(tables: Tables, wanted: Wanted, now: float) -> tuple[tuple[_Listed, ...], Wanted | None]:
    """Return the devices of a page, each with its health, and the page that follows; None: there is none.

    A device that was there all the time, with one name, stands on exactly one page, whoever enrols meanwhile.
    """
    with tables.reading() as session:
        conditions = [_is_in(session, wanted.state, now), _is_called(wanted.search)]
        if wanted.after:
            name = select(_name).where(_id == wanted.after).scalar_subquery()
            conditions.append(tuple_(_name, _id) > tuple_(name, literal(wanted.after)))
        ids = session.scalars(select(_id).where(*conditions).order_by(_name, _id).limit(PAGE + 1)).all()
        shown = tuple((device, health_of(device, now)) for device in find_devices(session, ids[:PAGE]))
    return shown, replace(wanted, after=ids[PAGE - 1]) if len(ids) > PAGE else None


def _is_called(word: str) -> ColumnElement[bool]:
    if not word:
        return true()
    pattern = "%" + re.sub(r"([\\%_])", r"\\\1", word) + "%"
    return _name.like(func.lower(pattern), escape="\\") | _id.like(pattern.lower(), escape="\\")


def _is_in(session: Session, state: str, now: float) -> ColumnElement[bool]:
    """Return the condition of a state; ``health_of`` says the same of one device."""
    if state == "outdated":
        return DeviceRow.revoked_at.is_(None) & is_outdated_one(session)
    seen, trusted, calm = DeviceRow.seen_at >= now - SEEN_S, _id.not_in(QUARANTINED), DeviceRow.trouble.is_(None)
    conditions = {
        "": (true(),),
        "revoked": (DeviceRow.revoked_at.is_not(None),),
        "online": (DeviceRow.revoked_at.is_(None), seen),
        "waiting": (DeviceRow.revoked_at.is_(None), DeviceRow.waiting.is_(True)),
        "quarantine": (IS_ACTIVE, _id.in_(QUARANTINED)),
        "trouble": (IS_ACTIVE, trusted, DeviceRow.trouble.is_not(None)),
        "silent": (IS_ACTIVE, trusted, calm, ~seen),
        "suspicious": (IS_ACTIVE, trusted, calm, seen, _id.in_(SUSPECTED)),
        "well": (IS_ACTIVE, trusted, calm, seen, _id.not_in(SUSPECTED)),
    }
    return and_(*conditions[state])


router = APIRouter(route_class=PageRoute, include_in_schema=False)

Action = Literal["admit", "quarantine", "release", "revoke"]
_DONE: dict[Action, str] = {
    "admit": "admitted",
    "quarantine": "quarantined",
    "release": "released",
    "revoke": "revoked",
}
_FromAddress = Annotated[Wanted, Depends(Wanted.of)]


@router.get("/fleet")
def show_fleet(request: Request, service: CurrentService, _visit: Signed, wanted: _FromAddress) -> Response:
    """Show the devices that are looked for, a page of them."""
    now = time.time()
    found, following = find_page(service.store, wanted, now)
    with service.store.reading() as session:
        every, outdated = count_devices(session, true()), count_outdated(session)
        present = every - count_devices(session, DeviceRow.revoked_at.is_not(None))
    counts: dict[str, Any] = {"all": every, "present": present, "outdated": outdated}
    return render(request, "fleet.html", found=found, following=following, wanted=wanted, states=STATES, **counts)


@router.post("/fleet/admit", dependencies=[Operator])
def admit_all(service: CurrentService, visit: Signed, form: OwnForm) -> Response:
    """Admit the devices that a page showed as waiting."""
    change_devices(service.store, form.text("devices").split(), "admit", time.time(), visit.actor)
    service.wake()
    return to_page("/fleet", "all-admitted")


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


@router.post("/fleet/{device_id}/{action}", dependencies=[Operator])
def change(
    request: Request, service: CurrentService, visit: Signed, form: OwnForm, device_id: DeviceId, action: Action
) -> Response:
    """Do something with a device; where the reason for it cannot be used, show it again, and why."""
    if action == "revoke":
        visit.person.require("admin")
    try:
        change_devices(service.store, [device_id], action, time.time(), visit.actor, form.text("reason"))
    except InvalidRequestError as error:
        return _device_page(request, service, device_id, form.text("reason"), error)
    service.wake()
    return to_page(f"/fleet/{device_id}", _DONE[action])
