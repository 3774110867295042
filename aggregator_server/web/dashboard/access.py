"""Who opens a page: the session of a cookie, its role, and forms that only this server's own pages can send."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from fastapi import Depends, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from aggregator_server.errors import InvalidRequestError, RefusedError
from aggregator_server.fleet.audit import Actor
from aggregator_server.fleet.sessions import find_session
from aggregator_server.fleet.tokens import Person
from aggregator_server.limits import FORM_FIELDS, SESSION_S
from aggregator_server.schemas import Role
from aggregator_server.web.dashboard.rendering import SignInNeededError
from aggregator_server.web.refused_requests import caller
from aggregator_server.web.routes.access import CurrentService

N = TypeVar("N")
_FORM_TYPE = "application/x-www-form-urlencoded"
_SESSION = "auricle"  # the cookie of who is signed in


@dataclass(frozen=True)
class Visit:
    """Somebody who is signed in."""

    person: Person
    secret: str = field(repr=False)
    actor: Actor


def secret_of(request: Request) -> str:
    """Return the session's secret that the browser keeps; empty where it keeps none."""
    return request.cookies.get(_cookie_name(request), "")


def keep_secret(request: Request, response: Response, secret: str) -> None:
    """Have the browser keep a session's secret, where no script and no other site gets at it; empty: no longer."""
    response.set_cookie(
        _cookie_name(request),
        secret,
        max_age=int(SESSION_S) if secret else 0,
        path="/",
        secure=is_private(request),
        httponly=True,
        samesite="strict",
    )


def _cookie_name(request: Request) -> str:
    # A browser takes the prefix only from this host itself, only over TLS and for all paths.
    return f"__Host-{_SESSION}" if is_private(request) else _SESSION


def is_private(request: Request) -> bool:
    """Say whether the browser speaks TLS."""
    return request.url.scheme == "https"


async def visitor(request: Request, service: CurrentService) -> Visit:
    """Admit whoever is signed in. Raises SignInNeededError: nobody is."""
    secret = secret_of(request)
    first = service.tokens.admin
    person = await run_in_threadpool(find_session, service.store, secret, first, time.time()) if secret else None
    if person is None:
        raise SignInNeededError
    visit = Visit(person, secret, caller(request, person.name))
    request.state.visit = visit
    return visit


class Form:
    """The fields of a form that was sent from a page of this server."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        self._fields = fields

    def text(self, name: str) -> str:
        """Return a field's text without blanks around it; empty where it is missing."""
        return self._fields.get(name, "").strip()

    def number(self, kind: Callable[[str], N], name: str, called: str) -> N | None:
        """Return a field's number; None where it is empty. Raises InvalidRequestError: it is none of the kind."""
        text = self.text(name)
        try:
            return kind(text) if text else None
        except ValueError:
            whole = "whole " if kind is int else ""
            raise InvalidRequestError(f"{called} must be a {whole}number, not {text[:100]!r}") from None


async def read_form(request: Request) -> Form:
    """Read a form, and check that no other site sent it; the session's cookie comes with no request of another site.

    Raises RefusedError: another site sent it, it is too large, or comes too slowly. InvalidRequestError: it is no form.
    """
    _require_own_page(request)
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM_TYPE:
        raise InvalidRequestError("this address takes a form of these pages")
    body = (await request.body()).decode("utf-8", "replace")
    try:  # how many fields there are is counted before they are parsed
        return Form(dict(parse_qsl(body, keep_blank_values=True, max_num_fields=FORM_FIELDS)))
    except ValueError:
        raise InvalidRequestError(f"a form has at most {FORM_FIELDS} fields") from None


async def _form_of_visitor(_visit: Annotated[Visit, Depends(visitor)], request: Request) -> Form:
    return await read_form(request)


def _require_own_page(request: Request) -> None:
    """Check what browsers say about a form's origin, as far as they do. Raises RefusedError: from another site."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    host = request.headers.get("host", "")
    if origin is not None and urlsplit(origin).netloc != host:
        raise RefusedError(
            "forged_form",
            f"a page of {origin[:200]!r} sent this form, and the server was asked as {host[:200]!r}: nothing was "
            "changed. If both are this server, a proxy in front keeps its name back: let it pass the name on (nginx: "
            "proxy_set_header Host $http_host)",
        )
    if site not in (None, "same-origin", "none"):
        raise RefusedError("forged_form", "this form was sent by another site; nothing was changed")


Signed = Annotated[Visit, Depends(visitor)]
OwnForm = Annotated[Form, Depends(_form_of_visitor)]


def _of_role(role: Role) -> Any:  # noqa: ANN401  (as FastAPI types it)
    async def admit(visit: Signed) -> None:
        visit.person.require(role)

    return Depends(admit)


Operator, Admin = _of_role("operator"), _of_role("admin")
