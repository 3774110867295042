"""What anybody may open: styles and scripts, and the form to sign in with a token."""

import time
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response

from aggregator_server.errors import AggregatorError, NotAuthenticatedError, RefusedError
from aggregator_server.fleet.sessions import find_session, sign_in, sign_out
from aggregator_server.server_address import ONCE
from aggregator_server.web.dashboard.access import Form, OwnForm, Signed, keep_secret, read_form, secret_of
from aggregator_server.web.dashboard.rendering import SIGN_IN, PageRoute, assets, own_page, render
from aggregator_server.web.refused_requests import client_address
from aggregator_server.web.routes.access import CurrentService
from aggregator_server.web.service import Service

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/static/{name:path}")
async def static_file(name: str) -> Response:
    """Return a file; a browser may keep it, because its address changes with it."""
    found = assets().get(name)
    if found is None:
        raise RefusedError("not_found", f"there is no file {name[:100]!r}")
    return Response(found.data, media_type=found.media_type, headers={"Cache-Control": "max-age=31536000, immutable"})


@router.get(SIGN_IN)
def show_sign_in(request: Request, service: CurrentService, next: str = "/") -> Response:  # noqa: A002  (in the address)
    """Show the form to whoever is not signed in."""
    secret = secret_of(request)
    if secret and find_session(service.store, secret, service.tokens.admin, time.time()) is not None:
        return RedirectResponse(own_page(next), 303)
    return _sign_in_page(request, next)


@router.get(ONCE)
def show_link(request: Request) -> Response:
    """Show the form of a link that signs in once, also to whoever is signed in; its script fills it in and sends it.

    Where another site leads here, somebody has to press its button.
    """
    return render(request, "sign_in_once.html", sent=request.headers.get("sec-fetch-site") in (None, "none"))


@router.post(SIGN_IN)
def take_token(request: Request, service: CurrentService, form: Annotated[Form, Depends(read_form)]) -> Response:
    """Begin a session, with a secret that nobody knew before."""
    wanted = own_page(form.text("next"))
    try:
        secret = _sign_in(request, service, form.text("token"))
    except AggregatorError as error:
        return _sign_in_page(request, wanted, error)
    response = RedirectResponse(wanted, 303)
    keep_secret(request, response, secret)
    return response


@router.post("/sign-out")
def end_session(request: Request, service: CurrentService, visit: Signed, _form: OwnForm) -> Response:
    """End the session here, not only in the browser."""
    sign_out(service.store, visit.secret, visit.actor, time.time())
    response = RedirectResponse(f"{SIGN_IN}?note=signed-out", 303)
    keep_secret(request, response, "")
    return response


def _sign_in(request: Request, service: Service, token: str) -> str:
    try:
        return sign_in(service.store, token, service.tokens.admin, client_address(request), time.time())
    except NotAuthenticatedError as error:
        service.refused_requests.refuse(request, error)


def _sign_in_page(request: Request, wanted: str, error: AggregatorError | None = None) -> Response:
    return render(request, "sign_in.html", error=error, next=own_page(wanted))
