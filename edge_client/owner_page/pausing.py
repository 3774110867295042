"""The button of every page that closes the microphone, and opens it again."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from edge_client.daemon.status import PATIENCE_S, has_closed
from edge_client.errors import ClipError, StateError
from edge_client.owner_page.device import OwnedDevice
from edge_client.owner_page.pages import read_form
from edge_client.pauses import seconds_of


def pausing_routes(device: OwnedDevice) -> list[Route]:
    """Return the address of the button: it says whether the device is paused, pauses it, and ends that."""

    def state(_: Request) -> Response:
        return JSONResponse({"paused": device.paused()})

    async def switch(request: Request) -> Response:
        form = await read_form(request)
        await run_in_threadpool(_switch, device, form.get("do", ""), form.get("for", ""))
        return JSONResponse({"paused": device.paused()})

    return [Route("/pause", state), Route("/pause", switch, methods=["POST"])]


def _switch(device: OwnedDevice, do: str, span: str) -> None:
    """Pause the device, and wait until all is closed; or end the pause. Raises EdgeError if that cannot be."""
    pauses = device.pauses()
    if do == "resume":
        pauses.resume()
        return
    if do != "pause":
        raise ClipError(f"{do[:100]!r} is no answer to that; pause or resume")
    pauses.pause("page", seconds_of(span) if span else None)
    if not has_closed(device.state, pauses):
        raise StateError(f"the daemon did not close the microphone within {PATIENCE_S:g} s: stop it")
