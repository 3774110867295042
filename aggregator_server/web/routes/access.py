"""Access to routes: for administrators, for devices, or for devices that enrol."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.concurrency import run_in_threadpool

from aggregator_server.errors import DeviceRevokedError, NotAuthenticatedError
from aggregator_server.fleet.audit import Actor
from aggregator_server.fleet.devices import authenticate, is_enrolled
from aggregator_server.security import same
from aggregator_server.web.service import Service

_ADMIN = HTTPBearer(scheme_name="AdminToken", description="`auricle-aggregator tokens` prints it.", auto_error=False)
_ENROL = HTTPBearer(
    scheme_name="EnrolmentToken", description="`auricle-aggregator tokens` prints it.", auto_error=False
)
_DEVICE = HTTPBearer(
    scheme_name="DeviceSecret", description="The secret that the device drew when it enrolled.", auto_error=False
)
# Errors that a route documents which devices, or administrators, may call.
DEVICE_ERRORS = (NotAuthenticatedError, DeviceRevokedError)
ADMIN_ERRORS = (NotAuthenticatedError,)

Bearer = HTTPAuthorizationCredentials | None


async def get_service(request: Request) -> Service:
    """Return the running server's state."""
    found: Service = request.app.state.service
    return found


CurrentService = Annotated[Service, Depends(get_service)]


def _note_actor(request: Request, who: str) -> None:
    request.state.actor = Actor(who, request.client.host if request.client else None)


def _know(request: Request, device_id: str = "") -> None:
    """Tell the connection that its client is known (web/connection.py)."""
    connection = getattr(request.state, "connection", None)
    if connection is not None:
        connection.know(device_id)


async def require_admin(request: Request, service: CurrentService, bearer: Annotated[Bearer, Security(_ADMIN)]) -> None:
    """Admit administrators."""
    if bearer is None or not same(bearer.credentials, service.tokens.admin):
        raise NotAuthenticatedError("this address needs the administrator's token: `Authorization: Bearer <token>`")
    _know(request)
    _note_actor(request, "administrator's token")


async def require_enrolment(
    request: Request, service: CurrentService, bearer: Annotated[Bearer, Security(_ENROL)]
) -> None:
    """Admit devices that have the enrolment token."""
    if bearer is None or not same(bearer.credentials, service.tokens.enrol):
        raise NotAuthenticatedError("this address needs the enrolment token: `Authorization: Bearer <token>`")
    _know(request)
    _note_actor(request, "enrolment token")


async def require_device(
    request: Request, service: CurrentService, bearer: Annotated[Bearer, Security(_DEVICE)]
) -> str:
    """Admit enrolled devices; return the identifier of the caller."""
    if bearer is None:
        raise NotAuthenticatedError("this address needs a device's secret: `Authorization: Bearer <secret>`")
    device_id = await run_in_threadpool(authenticate, service.store, bearer.credentials)
    _know(request, device_id)
    return device_id


async def require_member(
    request: Request,
    service: CurrentService,
    bearer: Annotated[Bearer, Security(_DEVICE)],
    admin: Annotated[Bearer, Security(_ADMIN)],
) -> None:
    """Admit enrolled devices and administrators."""
    if admin is not None and same(admin.credentials, service.tokens.admin):
        _know(request)
    else:
        await require_device(request, service, bearer)


async def opens_something(request: Request) -> bool:
    """Tell whether a request's token is one that the server knows, whatever it opens."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        return False
    service = await get_service(request)
    if same(token, service.tokens.admin) or same(token, service.tokens.enrol):
        return True
    return await run_in_threadpool(is_enrolled, service.store, token)


async def current_actor(request: Request) -> Actor:
    """Return who calls; only for routes that one of the dependencies above guards."""
    found: Actor = request.state.actor
    return found


Device = Annotated[str, Depends(require_device)]
Admin = Depends(require_admin)
Enroller = Depends(require_enrolment)
Member = Depends(require_member)
By = Annotated[Actor, Depends(current_actor)]
