"""The first page: what happens now, what needs somebody, how good the fleet is; and the page of the audit."""

import re
import time
from datetime import date
from typing import Annotated, get_args
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from aggregator_server.fleet.audit import Sought, What, end_of, find_entries, start_of
from aggregator_server.fleet.health import count_health
from aggregator_server.rounds.views.replies import list_progress, list_rounds
from aggregator_server.store.free_space import free_space
from aggregator_server.store.tables import ACTIVE
from aggregator_server.undo.reports import list_class_history
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
_LONGEST_NAME = 300
Number = Annotated[int | None, Query(ge=1, lt=2**63)]


@router.get("/audit")
def show_audit(
    request: Request,
    service: CurrentService,
    _visit: Signed,
    before: Number = None,
    after: Number = None,
    what: str = "",
    who: str = "",
    since: str = "",
    until: str = "",
    order: str = "",
) -> Response:
    """Show what happened; newest first, or oldest first. What an address cannot ask for is ignored."""
    days = {name: day for name, day in (("since", _day(since)), ("until", _day(until))) if day is not None}
    sought = Sought(
        before=before,
        after=after,
        what=what if what in KINDS else None,
        who=who.replace("\0", "").strip()[:_LONGEST_NAME],
        since=start_of(days.get("since")),
        until=end_of(days.get("until")),
        oldest_first=order == "oldest",
    )
    entries = find_entries(service.store, sought, _PAGE + 1)
    fields = {"what": sought.what or "", "who": sought.who, "order": "oldest" if sought.oldest_first else ""}
    fields |= {name: day.isoformat() for name, day in days.items()}
    further = None
    if len(entries) > _PAGE:
        place = {"after" if sought.oldest_first else "before": str(entries[_PAGE - 1].audit_id)}
        further = "/audit?" + urlencode({name: text for name, text in (fields | place).items() if text})
    return render(
        request,
        "audit.html",
        entries=entries[:_PAGE],
        further=further,
        kinds=KINDS,
        sought=sought,
        fields={"since": "", "until": ""} | fields,
    )


def _day(text: str) -> date | None:
    """Return the day that a field names, like 2026-03-29; None where it names none."""
    try:
        return date.fromisoformat(text[:10]) if _DAY.fullmatch(text) else None
    except ValueError:
        return None


_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
