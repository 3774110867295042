"""Schedules on the pages of rounds: what a form says of when rounds open, and the end of a schedule."""

from __future__ import annotations

import time

from fastapi import APIRouter
from fastapi.responses import Response

from aggregator_server.rounds import schedules
from aggregator_server.schemas import RoundRequest, ScheduleRequest
from aggregator_server.web.dashboard.access import Form, Operator, OwnForm, Signed
from aggregator_server.web.dashboard.going_on import to_page
from aggregator_server.web.dashboard.languages import gettext as _
from aggregator_server.web.dashboard.page_route import PageRoute
from aggregator_server.web.routes.access import CurrentService
from aggregator_server.web.routes.schedules import ScheduleId

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_HOUR_S = 3_600.0


def schedule_of(form: Form, wanted: RoundRequest) -> ScheduleRequest | None:
    """Return the schedule that a form asks for; None where it asks for one round now.

    Raises:
        InvalidRequestError: a field cannot be read.
    """
    when = form.text("when")
    hours = form.number("interval_hours", _("the hours between two rounds"))
    if when == "daily":
        return ScheduleRequest(round=wanted, daily_at=form.text("daily_at"), zone=form.text("zone") or None)
    if when == "interval":
        return ScheduleRequest(round=wanted, interval_s=(hours or 0.0) * _HOUR_S)
    return ScheduleRequest(round=wanted, continuous=True) if when == "continuous" else None


@router.post("/schedules/{schedule_id}/end", dependencies=[Operator])
def end(service: CurrentService, visit: Signed, _form: OwnForm, schedule_id: ScheduleId) -> Response:
    """Open no more rounds by a schedule."""
    schedules.end_schedule(service.store, schedule_id, time.time(), visit.actor)
    service.wake()
    return to_page("/rounds", "schedule-ended")
