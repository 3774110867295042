"""The first page: what happens now, what needs somebody, how good the fleet is; and the page of the audit."""

import time
from typing import Annotated, get_args

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from aggregator_server.fleet.audit import What, list_entries
from aggregator_server.fleet.class_details import list_class_history
from aggregator_server.fleet.health import count_health
from aggregator_server.rounds.replies import list_progress, list_rounds
from aggregator_server.store.free_space import free_space
from aggregator_server.store.tables import ACTIVE
from aggregator_server.web.dashboard.access import Signed
from aggregator_server.web.dashboard.rendering import PageRoute, render
from aggregator_server.web.dashboard.round_figures import open_round_view
from aggregator_server.web.routes.access import CurrentService

router = APIRouter(route_class=PageRoute, include_in_schema=False)
PROGRESS = 60  # rounds in the chart


@router.get("/")
def show_overview(request: Request, service: CurrentService, _visit: Signed) -> Response:
    """Show the fleet at a glance."""
    now = time.time()
    with service.store.reading() as session:
        health = count_health(session, now)
    classes = list_class_history(service.store, reports=0)
    return render(
        request,
        "overview.html",
        health=health,
        active=[info for info in classes if info.state == ACTIVE],
        room=free_space(service.store.blobs.folder),
        current=open_round_view(service.store, now),
        rounds=list_rounds(service.store, None, 5),
        progress=list_progress(service.store, PROGRESS),
    )


KINDS: tuple[What, ...] = get_args(What)
_PAGE = 50
Number = Annotated[int | None, Query(ge=1, lt=2**63)]


@router.get("/audit")
def show_audit(
    request: Request, service: CurrentService, _visit: Signed, before: Number = None, what: str = ""
) -> Response:
    """Show what happened, newest first. A kind that there is not is ignored."""
    kind = what if what in KINDS else ""
    entries = list_entries(service.store, before, _PAGE + 1, kind or None)
    older = {"what": kind, "before": entries[_PAGE - 1].audit_id} if len(entries) > _PAGE else None
    return render(
        request, "audit.html", entries=entries[:_PAGE], older=older, kinds=KINDS, chosen=kind, is_newest=before is None
    )
