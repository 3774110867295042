"""Takes the language that somebody chose for this browser. The sign-in page offers it too: nobody need be signed in."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from aggregator_server.errors import NotFoundError
from aggregator_server.web.dashboard.access import is_private, read_fields, require_own_page
from aggregator_server.web.dashboard.going_on import own_page
from aggregator_server.web.dashboard.languages import COOKIE, LANGUAGES, gettext
from aggregator_server.web.dashboard.page_route import PageRoute

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_YEAR_S = 365 * 86_400


@router.post("/language")
async def choose_language(request: Request) -> Response:
    """Keep the choice in the browser, and show the page again. It holds nothing secret and changes nothing here."""
    require_own_page(request)
    form = await read_fields(request)
    code = form.text("language")
    if code not in LANGUAGES:
        raise NotFoundError(gettext("the pages do not speak that language"))
    response = RedirectResponse(own_page(form.text("next") or "/"), 303)
    response.set_cookie(
        COOKIE, code, max_age=_YEAR_S, path="/", secure=is_private(request), httponly=True, samesite="lax"
    )
    return response
