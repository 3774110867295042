"""Access to routes: for people by their role, for devices, or for devices that enrol."""

import time
from typing import Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.concurrency import run_in_threadpool

from aggregator_server.errors import DeviceRevokedError, NotAuthenticatedError
from aggregator_server.fleet.audit import Actor
from aggregator_server.fleet.devices import identify, is_enrolled
from aggregator_server.fleet.enrolment import Entry
from aggregator_server.fleet.tokens import FIRST, ROLES, Person, find_invitation, find_person, find_token
from aggregator_server.schemas import Role
from aggregator_server.security import USER_PREFIX, same
from aggregator_server.web.http_errors import documented
from aggregator_server.web.refused_requests import caller
from aggregator_server.web.service import Service

_PEOPLE = "`auricle-aggregator tokens add --role {}` makes one; a role may do what those below it may."
_VIEWER, _OPERATOR, _ADMIN = (
    HTTPBearer(scheme_name=f"{role.title()}Token", description=_PEOPLE.format(role), auto_error=False) for role in ROLES
)
_ENROL = HTTPBearer(
    scheme_name="EnrolmentToken",
    description="An invitation (`auricle-aggregator invite`), the enrolment token (`auricle-aggregator tokens`), or "
    "the device's own secret where it is enrolled already.",
    auto_error=False,
)
_DEVICE = HTTPBearer(
    scheme_name="DeviceSecret", description="The secret that the device drew when it enrolled.", auto_error=False
)
# Errors that a route documents which devices, or people, may call.
DEVICE_ERRORS = "unauthorised device_revoked device_waiting"
_PERSON_ERRORS = "unauthorised role_too_low"
MEMBER_ERRORS = f"{DEVICE_ERRORS} role_too_low"

_TO_ENROL = "this address needs an invitation, the enrolment token, or the secret of a device that is enrolled"
_TO_ASK = "this address needs the secret of a device that is enrolled; enrol at POST /v1/devices first"

Bearer = HTTPAuthorizationCredentials | None


async def _get_service(request: Request) -> Service:
    found: Service = request.app.state.service
    return found


CurrentService = Annotated[Service, Depends(_get_service)]


def _of_role(scheme: HTTPBearer, role: Role) -> Any:  # noqa: ANN401  (as FastAPI types it)
    async def admit(request: Request, service: CurrentService, bearer: Annotated[Bearer, Security(scheme)]) -> None:
        await _admit_person(request, service, bearer, role)

    return Depends(admit)


async def _require_enrolment(
    request: Request, service: CurrentService, bearer: Annotated[Bearer, Security(_ENROL)]
) -> Entry:
    token = "" if bearer is None else bearer.credentials
    terms = service.terms
    invitation_id = None
    if not same(token, service.tokens.enrol):
        invitation_id = await service.for_device(find_invitation, service.store, token)
        if invitation_id is None:
            device_id = await _admit_device(request, service, bearer, _TO_ENROL, waiting=True)
            return Entry(by=caller(request, f"device {device_id}"), device_id=device_id)
    by = caller(request, "enrolment token" if invitation_id is None else f"invitation {invitation_id}")
    return Entry(by=by, invitation_id=invitation_id, per_minute=terms.devices_per_minute, approve=terms.approve)


def _of_device(*, waiting: bool) -> Any:  # noqa: ANN401  (as FastAPI types it)
    async def admit(request: Request, service: CurrentService, bearer: Annotated[Bearer, Security(_DEVICE)]) -> str:
        return await _admit_device(request, service, bearer, _TO_ASK, waiting=waiting)

    return Depends(admit)


async def _require_member(
    request: Request,
    service: CurrentService,
    bearer: Annotated[Bearer, Security(_DEVICE)],
    person: Annotated[Bearer, Security(_VIEWER)],
) -> None:
    token = person.credentials if person else ""
    if token.startswith(USER_PREFIX) or same(token, service.tokens.admin):
        await _admit_person(request, service, person, "viewer")
    else:
        await _admit_device(request, service, bearer, _TO_ASK, waiting=False)


async def require_known(request: Request) -> None:
    """Admit whoever has a token that the server knows. Raises NotAuthenticatedError: it is none of these."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    service = await _get_service(request)
    if scheme.lower() == "bearer":
        if same(token, service.tokens.admin) or same(token, service.tokens.enrol):
            return
        if is_enrolled(service.store, token) or await service.for_device(_is_known, service, token):
            return
    message = "this address needs a token that the server knows: `Authorization: Bearer <token>`"
    await service.for_device(service.refused_requests.refuse, request, NotAuthenticatedError(message))


async def _current_actor(request: Request) -> Actor:
    """Return which person calls; only for routes that a role guards."""
    found: Actor = request.state.actor
    return found


def _is_known(service: Service, token: str) -> bool:
    known_to = (find_token, find_invitation)
    return any(bool(find(service.store, token)) for find in known_to)


async def _admit_person(request: Request, service: Service, bearer: Bearer, role: Role) -> None:
    if bearer is not None and same(bearer.credentials, service.tokens.admin):
        person = FIRST
    else:
        person = await run_in_threadpool(_person, request, service, bearer, role)
    person.require(role)
    request.state.actor = caller(request, person.name)


def _person(request: Request, service: Service, bearer: Bearer, role: Role) -> Person:
    try:
        person = find_person(service.store, bearer.credentials, time.time()) if bearer is not None else None
    except NotAuthenticatedError as error:
        service.refused_requests.refuse(request, error)
    if person is None:
        message = f"this address needs a token of the role {role}: `Authorization: Bearer <token>`"
        service.refused_requests.refuse(request, NotAuthenticatedError(message))
    return person


async def _admit_device(request: Request, service: Service, bearer: Bearer, refusal: str, *, waiting: bool) -> str:
    try:
        row = identify(service.store, "" if bearer is None else bearer.credentials, waiting=waiting)
    except NotAuthenticatedError:
        error = NotAuthenticatedError(f"{refusal}: `Authorization: Bearer <secret>`")
        await service.for_device(service.refused_requests.refuse, request, error)
    except DeviceRevokedError as error:
        by = caller(request, f"device {error.device_id}")
        await service.for_device(service.refused_requests.note_revoked, by)
        raise
    request.state.features = row.features_digest
    return row.device_id


def for_people(role: Any, summary: str, *codes: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401  (FastAPI's own)
    """Return the options of a route that people of a role may call; ``codes`` as :func:`documented` takes them."""
    return {"summary": summary, "dependencies": [role], "responses": documented(_PERSON_ERRORS, *codes), **more}


def for_members(summary: str, *codes: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401  (FastAPI's own)
    """Return the options of a route that enrolled devices and people may call."""
    return {"summary": summary, "dependencies": [Member], "responses": documented(MEMBER_ERRORS, *codes), **more}


Device = Annotated[str, _of_device(waiting=False)]
AnyDevice = Annotated[str, _of_device(waiting=True)]  # also one that waits to be admitted
EntryOfCaller = Annotated[Entry, Depends(_require_enrolment)]
Viewer, Operator, Admin = _of_role(_VIEWER, "viewer"), _of_role(_OPERATOR, "operator"), _of_role(_ADMIN, "admin")
Member = Depends(_require_member)
By = Annotated[Actor, Depends(_current_actor)]
