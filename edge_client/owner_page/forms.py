"""The forms that change what the device was taught, and what it listens for: each answers in words for the owner."""

from __future__ import annotations

from collections.abc import Callable

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from edge_client import owner_changes, owner_undo
from edge_client.clips.folders import Clip
from edge_client.detection.sensitivity import STEPS, threshold_at
from edge_client.errors import ClipError
from edge_client.owner import Teaching
from edge_client.owner_page.device import OwnedDevice
from edge_client.owner_page.pages import number_of, read_form
from edge_client.questions.answers import answer_offer
from edge_client.storage.owner_acts import KEEP_DAYS


def _keep(_: OwnedDevice, teaching: Teaching, form: dict[str, str]) -> str:
    on = form.get("keep") == "on"
    teaching.detected.switch(on=on)
    return "It keeps what it detects from now on." if on else "It keeps no detected sounds; those kept are deleted."


def _rename(_: OwnedDevice, teaching: Teaching, form: dict[str, str]) -> str:
    """Rename a sound; where the new name is another sound's, both are put together, if the owner said so."""
    label, given = form.get("label", ""), form.get("new_label", "").strip()
    if teaching.class_of(label) is not None:
        when = "now" if owner_changes.rename_class(teaching, label, given) else "once the present training has ended"
        return f"{label} is {given} {when}, whatever the fleet calls it."
    new_label = teaching.require_slot(given)
    clips = _taught(teaching, label)
    if new_label == label:
        raise ClipError(f"it is called {label!r} already")
    if new_label in teaching.known_labels() and form.get("together") != "yes":
        raise ClipError(f"there is a sound called {new_label!r} already: say that both are to be put together")
    owner_changes.rename(teaching, clips, new_label)
    return f"{label} is {new_label} now. {teaching.after(terminal=False)}"


def _delete(_: OwnedDevice, teaching: Teaching, form: dict[str, str]) -> str:
    label = form.get("label", "")
    owner_changes.delete(teaching, _taught(teaching, label))
    return f"{label} is deleted. For {KEEP_DAYS:g} days this can be undone."


def _move_clip(device: OwnedDevice, teaching: Teaching, form: dict[str, str]) -> str:
    clip = device.clip(form.get("label", ""), form.get("clip", ""))
    new_label = teaching.require_slot(form.get("new_label", "").strip())
    owner_changes.rename(teaching, [clip], new_label)
    return f"The clip is one of {new_label} now. {teaching.after(terminal=False)}"


def _remove_clip(device: OwnedDevice, teaching: Teaching, form: dict[str, str]) -> str:
    owner_changes.delete(teaching, [device.clip(form.get("label", ""), form.get("clip", ""))])
    return f"The clip is deleted. For {KEEP_DAYS:g} days this can be undone."


def _undo(_: OwnedDevice, teaching: Teaching, form: dict[str, str]) -> str:
    named = (form.get("kind", ""), number_of(form.get("number", "")))
    for change in owner_undo.changes(teaching):
        if (change.kind, change.number) == named:
            count = owner_undo.undo(teaching, change)
            return f"Taken back: {change.words}. {teaching.after(terminal=False) if count else ''}".rstrip()
    raise ClipError("this cannot be undone any more: it was undone already, or a week has passed")


def _sensitivity(_: OwnedDevice, teaching: Teaching, form: dict[str, str]) -> str:
    """Choose from which score a sound counts as heard, by the step of a slider; "auto": the device chooses again."""
    label, step = form.get("label", ""), form.get("step", "")
    if step == "auto":
        owner_changes.tune(teaching, label, None)
        return f"The device chooses from which score {label} counts as heard."
    if number_of(step) > STEPS:
        raise ClipError(f"a sensitivity is a step from 0 to {STEPS}, not {step}")
    owner_changes.tune(teaching, label, threshold_at(int(step)))
    return f"{label} counts as heard from another score on now."


def _know(_: OwnedDevice, teaching: Teaching, form: dict[str, str]) -> str:
    """Listen for a ``sound`` that the device knows from the start; without one, for a ``label`` no more."""
    if sound := form.get("sound", ""):
        label = owner_changes.know(teaching, sound)
        return f"{label} is listened for. {teaching.after(terminal=False)}"
    label = form.get("label", "")
    return " ".join(owner_changes.know_no_more(teaching, label)) or f"{label} is what you taught alone, from now on."


def _listen(_: OwnedDevice, teaching: Teaching, form: dict[str, str]) -> str:
    """Listen for a ``label`` or not (``on``), and at some ``hours``, with commas between; what is absent stays."""
    label, given = form.get("label", ""), form.get("hours")
    hours = None if given is None else [part.strip() for part in given.split(",") if part.strip()]
    on = {"yes": True, "no": False}.get(form.get("on", ""))
    found = owner_changes.listen(teaching, label, on, hours)
    return f"{label}: {found.words}."


def _offer(_: OwnedDevice, teaching: Teaching, form: dict[str, str]) -> str:
    return answer_offer(teaching, form.get("sound", ""), form.get("says", ""))


def _taught(teaching: Teaching, label: str) -> list[Clip]:
    """Return the clips of a label. Raises ClipError if there are none."""
    if label not in teaching.store.labels():
        raise ClipError(f"you taught no sound called {label[:100]!r} (any more)")
    return teaching.store.clips(label)


# What the forms of an address do; each returns words for the owner.
FORMS: dict[str, Callable[[OwnedDevice, Teaching, dict[str, str]], str]] = {
    "/heard/keep": _keep,
    "/sounds/rename": _rename,
    "/sounds/delete": _delete,
    "/sounds/move": _move_clip,
    "/sounds/remove": _remove_clip,
    "/sounds/undo": _undo,
    "/sounds/know": _know,
    "/sounds/sensitivity": _sensitivity,
    "/sounds/offer": _offer,
    "/sounds/listen": _listen,
}


def form_route(device: OwnedDevice, address: str) -> Route:
    """Return one of the addresses."""

    async def answer(request: Request) -> Response:
        form = await read_form(request)
        message = await run_in_threadpool(lambda: FORMS[address](device, device.teaching(), form))
        return JSONResponse({"message": message})

    return Route(address, answer, methods=["POST"])
