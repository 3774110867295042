"""What the page changes of the device: sounds are renamed, put together and deleted, all undone; what is kept."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from edge_client import owner_changes
from edge_client.clips.trash import KEEP_DAYS
from edge_client.errors import ClipError
from edge_client.owner import Teaching
from edge_client.owner_page.device import OwnedDevice
from edge_client.owner_page.forms import number_of, read_form


class Changing:
    """The addresses; each answers with words for the owner."""

    def __init__(self, device: OwnedDevice) -> None:
        self._device = device

    def routes(self) -> list[Route]:
        """Return the addresses, all of which take forms."""
        does = {
            "/heard/keep": self._keep,
            "/sounds/rename": self._rename,
            "/sounds/delete": self._delete,
            "/sounds/undo": self._undo,
            "/sounds/differ": self._differ,
        }

        def route(address: str) -> Route:
            async def answer(request: Request) -> Response:
                message = await run_in_threadpool(does[address], await read_form(request))
                return JSONResponse({"message": message})

            return Route(address, answer, methods=["POST"])

        return [route(address) for address in does]

    def _keep(self, form: dict[str, str]) -> str:
        on = form.get("keep") == "on"
        self._device.teaching().detected.switch(on=on)
        return "It keeps what it detects from now on." if on else "It keeps no detected sounds; those kept are deleted."

    def _rename(self, form: dict[str, str]) -> str:
        """Rename a sound; where the new name is another sound's, both are put together, if the owner said so."""
        teaching = self._device.teaching()
        label, new_label = form.get("label", ""), teaching.require_slot(form.get("new_label", "").strip())
        clips = teaching.store.clips(_taught(teaching, label))
        if new_label == label:
            raise ClipError(f"it is called {label!r} already")
        if new_label in teaching.known_labels() and form.get("together") != "yes":
            raise ClipError(f"there is a sound called {new_label!r} already: say that both are to be put together")
        owner_changes.rename(teaching, clips, new_label)
        return f"{label} is {new_label} now. {teaching.after(terminal=False)}"

    def _delete(self, form: dict[str, str]) -> str:
        teaching = self._device.teaching()
        label = form.get("label", "")
        clips = teaching.store.clips(_taught(teaching, label))
        owner_changes.delete(teaching, clips)
        return f"{label} is deleted. For {KEEP_DAYS:g} days this can be undone."

    def _undo(self, form: dict[str, str]) -> str:
        teaching = self._device.teaching()
        named = (form.get("kind", ""), number_of(form.get("at_ms", "")))
        for change in owner_changes.changes(teaching):
            if (change.kind, change.at_ms) == named:
                count = owner_changes.undo(teaching, change)
                clips = "clip is" if count == 1 else "clips are"
                return f"{count} {clips} {change.label} again. {teaching.after(terminal=False)}"
        raise ClipError("this cannot be undone any more: it was undone already, or a week has passed")

    def _differ(self, form: dict[str, str]) -> str:
        first, second = form.get("first", ""), form.get("second", "")
        owner_changes.set_different(self._device.teaching(), first, second)
        return f"{first} and {second} differ: you will not be asked again."


def _taught(teaching: Teaching, label: str) -> str:
    """Return a label of which the owner has clips.

    Raises:
        ClipError: there are none.
    """
    if label not in teaching.store.labels():
        raise ClipError(f"you taught no sound called {label[:100]!r} (any more)")
    return label
