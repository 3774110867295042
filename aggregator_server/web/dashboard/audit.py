"""The page of the audit."""

from __future__ import annotations

from typing import Annotated, get_args

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from aggregator_server.fleet.audit import What, list_entries
from aggregator_server.web.dashboard.access import Signed
from aggregator_server.web.dashboard.page_route import PageRoute
from aggregator_server.web.dashboard.rendering import render
from aggregator_server.web.routes.access import CurrentService

router = APIRouter(route_class=PageRoute, include_in_schema=False)
KINDS: tuple[What, ...] = get_args(What)
_PAGE = 50


@router.get("/audit")
def show_audit(
    request: Request,
    service: CurrentService,
    _visit: Signed,
    before: Annotated[int | None, Query(ge=1, lt=2**63)] = None,
    what: str = "",
) -> Response:
    """Show what happened, newest first."""
    kind = what if what in KINDS else None
    entries = list_entries(service.store, before, _PAGE + 1, kind)
    older = entries[_PAGE - 1].audit_id if len(entries) > _PAGE else None
    return render(request, "audit.html", entries=entries[:_PAGE], older=older, kinds=KINDS, what=kind, before=before)
