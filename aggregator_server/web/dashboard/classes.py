"""The pages of classes: how each was found, and what an operator does about it."""

import time

from fastapi import APIRouter, Request
from fastapi.responses import Response

from aggregator_server.errors import AggregatorError, ClassNotFoundError, RoundNotFoundError
from aggregator_server.fleet.classes import rename_class
from aggregator_server.fleet.devices import device_names
from aggregator_server.rounds.views.replies import describe_round
from aggregator_server.schemas import ClassDetail
from aggregator_server.store import Store
from aggregator_server.store.tables import ACTIVE
from aggregator_server.undo.class_changes import merge_class, remove_class
from aggregator_server.undo.reports import describe_class, list_class_history
from aggregator_server.web.dashboard.access import Operator, OwnForm, Signed
from aggregator_server.web.dashboard.new_sounds import NewSounds, new_sounds_of
from aggregator_server.web.dashboard.rendering import PageRoute, render, to_page
from aggregator_server.web.routes.access import CurrentService
from aggregator_server.web.routes.classes import ClassId
from aggregator_server.web.service import Service

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/classes")
def show_classes(request: Request, service: CurrentService, _visit: Signed) -> Response:
    """Show the fleet's classes, and former ones."""
    found = list_class_history(service.store)
    return render(
        request,
        "classes.html",
        active=[info for info in found if info.state == ACTIVE],
        former=[info for info in found if info.state != ACTIVE],
    )


@router.get("/classes/{class_id}")
def show_class(request: Request, service: CurrentService, _visit: Signed, class_id: ClassId) -> Response:
    """Show one class: who reported it, how alike the reports were, and what can be done about it."""
    return _class_page(request, service, class_id)


def _class_page(
    request: Request, service: Service, class_id: str, typed: str = "", error: AggregatorError | None = None
) -> Response:
    info = describe_class(service.store, class_id)
    with service.store.reading() as session:
        names = device_names(session, [report.device_id for report in info.reports])
    others = [other for other in list_class_history(service.store, reports=0) if other.state == ACTIVE]
    return render(
        request,
        "class.html",
        error=error,
        typed=typed,
        info=info,
        names=names,
        others=[other for other in others if other.class_id != class_id],
        found=_new_sounds(service.store, info),
    )


@router.post("/classes/{class_id}/rename", dependencies=[Operator])
def rename(request: Request, service: CurrentService, visit: Signed, form: OwnForm, class_id: ClassId) -> Response:
    """Give a class another name; where that cannot be, show what was typed, and why."""
    try:
        rename_class(service.store, class_id, form.text("name"), visit.actor)
    except ClassNotFoundError:
        raise
    except AggregatorError as error:
        return _class_page(request, service, class_id, form.text("name"), error)
    service.new_work.notify()
    return to_page(f"/classes/{class_id}", "renamed")


@router.post("/classes/{class_id}/merge", dependencies=[Operator])
def merge(service: CurrentService, visit: Signed, form: OwnForm, class_id: ClassId) -> Response:
    """Make a class one with another."""
    into = form.text("into")
    merge_class(service.store, class_id, into, time.time(), visit.actor)
    service.new_work.notify()
    return to_page(f"/classes/{into}", "merged")


@router.post("/classes/{class_id}/retire", dependencies=[Operator])
def retire(service: CurrentService, visit: Signed, _form: OwnForm, class_id: ClassId) -> Response:
    """Retire a class."""
    remove_class(service.store, class_id, time.time(), visit.actor)
    service.new_work.notify()
    return to_page(f"/classes/{class_id}", "retired")


def _new_sounds(store: Store, info: ClassDetail) -> NewSounds | None:
    """Return the reports of the round that discovered a class; None for a class of the public set."""
    if info.discovered_in is None:
        return None
    try:
        return new_sounds_of(describe_round(store, info.discovered_in))
    except RoundNotFoundError:
        return None
