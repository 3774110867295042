"""The page of invitations; a new one is shown once, with a code for a camera."""

import io
import secrets
import threading
import time

import segno
from fastapi import APIRouter, Request
from fastapi.responses import Response
from markupsafe import Markup

from aggregator_server.errors import AggregatorError
from aggregator_server.fleet import tokens
from aggregator_server.schemas import InvitationRequest, NewInvitation
from aggregator_server.server_address import make_link
from aggregator_server.web.dashboard.access import Admin, Form, OwnForm, Signed, Visit
from aggregator_server.web.dashboard.rendering import PageRoute, render, to_page
from aggregator_server.web.routes.access import CurrentService
from aggregator_server.web.routes.tokens import InvitationId
from aggregator_server.web.service import Service

router = APIRouter(route_class=PageRoute, include_in_schema=False, dependencies=[Admin])

_HOUR_S = 3_600.0
_FORMS = 16  # the last ones that made an invitation; a browser may send a form twice, within a moment
_MAKING = threading.Lock()
_MADE: dict[tuple[str, str], tuple[NewInvitation, str]] = {}  # by the visit and the form


@router.get("/invitations")
def show_invitations(request: Request, service: CurrentService, _visit: Signed) -> Response:
    """Show every invitation without its text, newest first, and a form for another one."""
    return _list(request, service)


@router.post("/invitations")
def invite(request: Request, service: CurrentService, visit: Signed, form: OwnForm) -> Response:
    """Make an invitation. The answer alone shows it: the server keeps a hash. A form that comes twice makes one."""
    once = visit.secret, form.text("once")
    with _MAKING:
        if once[1] and once in _MADE:
            made, link = _MADE[once]
            return _list(request, service, made=made, link=link)
        return _make(request, service, visit, form, once)


def _make(request: Request, service: Service, visit: Visit, form: Form, once: tuple[str, str]) -> Response:
    try:
        link_of = make_link(service.store.folder, form.text("url") or None)
        hours = form.number(float, "hours", "the hours")
        wanted = InvitationRequest(
            devices=form.number(int, "devices", "the number of devices") or 1,
            expires_s=None if hours is None else hours * _HOUR_S,
            group=form.text("group") or None,
        )
        made = tokens.invite(service.store, wanted, visit.actor, time.time())
    except AggregatorError as error:
        return _list(request, service, error=error, form=form)
    _MADE[once] = made, link_of(made.token)
    while len(_MADE) > _FORMS:
        del _MADE[next(iter(_MADE))]
    return _list(request, service, made=made, link=_MADE[once][1])


@router.post("/invitations/{invitation_id}/revoke")
def revoke(service: CurrentService, visit: Signed, _form: OwnForm, invitation_id: InvitationId) -> Response:
    """Let nobody in by an invitation from now on."""
    tokens.revoke_invitation(service.store, invitation_id, visit.actor, time.time())
    return to_page("/invitations", "invitation-revoked")


def _list(
    request: Request,
    service: Service,
    made: NewInvitation | None = None,
    link: str = "",
    error: AggregatorError | None = None,
    form: Form | None = None,
) -> Response:
    listed = tokens.list_invitations(service.store)[::-1]
    shown = {"made": made, "link": link, "code": code_of(link) if link else None, "now": time.time()}
    shown["once"] = secrets.token_urlsafe(12)
    return render(request, "invitations.html", error=error, form=form, invitations=listed, **shown)


def code_of(link: str) -> Markup:
    """Return a link's QR code as SVG without styles, which the pages' policy refuses."""
    text = io.BytesIO()
    segno.make(link, error="m").save(
        text,
        kind="svg",
        xmldecl=False,
        svgns=True,
        border=2,
        scale=4,
        svgclass="code",
        lineclass=None,
        omitsize=True,
        title="Invitation as a QR code",
    )
    return Markup(text.getvalue().decode())  # noqa: S704  (segno's own markup; the link is only drawn)
