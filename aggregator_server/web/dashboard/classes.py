"""The pages of classes: how each was found, and what an operator does about it."""

import time
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import Response

from aggregator_server.errors import AggregatorError, ClassNotFoundError, RefusedError, RoundNotFoundError
from aggregator_server.fleet.audit import What, list_entries
from aggregator_server.fleet.class_backing import approve_class
from aggregator_server.fleet.class_details import describe_class, list_class_history
from aggregator_server.fleet.classes import rename_class
from aggregator_server.fleet.devices import device_names
from aggregator_server.operator_changes.merge_and_retire import merge_class, remove_class
from aggregator_server.operator_changes.restore_and_undo import undo_operation
from aggregator_server.rounds.replies import describe_round
from aggregator_server.schemas import ClassDetail
from aggregator_server.store.store import Store
from aggregator_server.store.tables import ACTIVE
from aggregator_server.web.dashboard.access import Operator, OwnForm, Signed
from aggregator_server.web.dashboard.rendering import NOTES, PageRoute, render, to_page
from aggregator_server.web.dashboard.round_figures import NewSounds, new_sounds_of
from aggregator_server.web.routes.access import CurrentService
from aggregator_server.web.routes.classes import ClassId
from aggregator_server.web.service import Service

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_CHANGES: dict[str, What] = {"renamed": "class_renamed", "merged": "class_merged", "retired": "class_retired"}


@dataclass(frozen=True)
class Undo:
    """What was done just now, and the form that undoes it; ``name``: the former one, where a name was changed."""

    said: str
    address: str
    name: str = ""


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
    done = request.query_params.get("note", "")
    undo = _undo_of(service.store, info, done)
    return render(
        request,
        "class.html",
        error=error,
        typed=typed,
        undo=undo,
        note=undo.said if undo else NOTES.get(done, ""),
        info=info,
        names=names,
        others=[other for other in others if other.class_id != class_id],
        found=_new_sounds(service.store, info),
    )


def _undo_of(store: Store, info: ClassDetail, done: str) -> Undo | None:
    """Return how to undo what an address says was done; None where that is not the newest change of its kind."""
    details = _newest_change(store, done)
    class_id = details.get("class_id", "")
    if info.class_id not in (class_id, details.get("into")):
        return None
    if done == "renamed":
        said = f"Renamed {details['before']} to {details['name']}."
        return Undo(said, f"/classes/{quote(class_id)}/rename", details["before"])
    name = describe_class(store, class_id).name
    said = f"Merged {name} into {info.name}." if done == "merged" else f"Retired {name}."
    return Undo(said, f"/classes/{quote(class_id)}/undo/{done}")


def _newest_change(store: Store, done: str) -> dict[str, Any]:
    entries = list_entries(store, None, 1, _CHANGES[done]) if done in _CHANGES else ()
    return entries[0].details if entries else {}


@router.post("/classes/{class_id}/undo/{done}", dependencies=[Operator])
def undo(
    service: CurrentService, visit: Signed, _form: OwnForm, class_id: ClassId, done: Literal["merged", "retired"]
) -> Response:
    """Undo what was done to a class, where nothing came since."""
    details = _newest_change(service.store, done)
    if details.get("class_id") != class_id:
        raise RefusedError(
            "round_not_done", "Another class was changed since. Go back on the page of the round whose state is wanted."
        )
    undo_operation(service.store, details["round_id"], time.time(), visit.actor)
    service.wake()
    return to_page(f"/classes/{class_id}", "undone")


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


@router.post("/classes/{class_id}/approve", dependencies=[Operator])
def approve(service: CurrentService, visit: Signed, _form: OwnForm, class_id: ClassId) -> Response:
    """Let every device listen for a class."""
    approve_class(service.store, class_id, visit.actor)
    return to_page(f"/classes/{class_id}", "approved")


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
    if info.discovered_in is None:
        return None
    try:
        return new_sounds_of(describe_round(store, info.discovered_in))
    except RoundNotFoundError:
        return None
