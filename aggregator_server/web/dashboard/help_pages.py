"""The pages of help. The documents are public, so anybody may read them, also who is not signed in."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from aggregator_server.errors import NotFoundError
from aggregator_server.web.dashboard.documents import documents, read_document
from aggregator_server.web.dashboard.languages import gettext
from aggregator_server.web.dashboard.page_route import PageRoute
from aggregator_server.web.dashboard.rendering import render

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/help/{name:path}")
def show_document(request: Request, name: str) -> Response:
    """Show a document."""
    if name not in documents():
        raise NotFoundError(gettext("there is no page of help %(name)s") % {"name": repr(name[:100])})
    return render(request, "help.html", document=read_document(name))
