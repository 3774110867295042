"""The first page: what happens now, what needs somebody, and how good the fleet is."""

from __future__ import annotations

import time
from collections import Counter

from fastapi import APIRouter, Request
from fastapi.responses import Response

from aggregator_server.fleet.devices import list_devices
from aggregator_server.rounds.views.progress import list_progress
from aggregator_server.rounds.views.replies import list_rounds
from aggregator_server.store.free_space import free_space
from aggregator_server.store.tables import ACTIVE, PROPOSED
from aggregator_server.undo.views import list_class_history
from aggregator_server.web.dashboard.access import Signed
from aggregator_server.web.dashboard.fleet_list import health_of
from aggregator_server.web.dashboard.page_route import PageRoute
from aggregator_server.web.dashboard.rendering import render
from aggregator_server.web.dashboard.round_figures import open_round_view
from aggregator_server.web.routes.access import CurrentService

router = APIRouter(route_class=PageRoute, include_in_schema=False)
PROGRESS = 60  # rounds in the chart


@router.get("/")
def show_overview(request: Request, service: CurrentService, _visit: Signed) -> Response:
    """Show the fleet at a glance."""
    now = time.time()
    health = Counter(health_of(device, now) for device in list_devices(service.store))
    classes = list_class_history(service.store)
    return render(
        request,
        "overview.html",
        health=health,
        active=[info for info in classes if info.state == ACTIVE],
        proposed=[info for info in classes if info.state == PROPOSED],
        room=free_space(service.store.blobs.folder),
        current=open_round_view(service.store, now),
        rounds=list_rounds(service.store, None, 5),
        progress=list_progress(service.store, PROGRESS),
    )
