"""Serves the styles and scripts."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from aggregator_server.errors import NotFoundError
from aggregator_server.web.dashboard.assets import assets
from aggregator_server.web.dashboard.languages import gettext
from aggregator_server.web.dashboard.page_route import PageRoute

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/static/{name:path}")
async def static_file(name: str) -> Response:
    """Return a file; a browser may keep it, because its address changes with it."""
    found = assets().get(name)
    if found is None:
        raise NotFoundError(gettext("there is no file %(name)s") % {"name": repr(name[:100])})
    return Response(found.data, media_type=found.media_type, headers={"Cache-Control": "max-age=31536000, immutable"})
