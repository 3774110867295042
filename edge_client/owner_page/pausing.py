"""The button of every page that closes the microphone, and opens it again."""

from __future__ import annotations

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from edge_client.capture.pauses import seconds_of
from edge_client.daemon.status import PATIENCE_S, has_closed
from edge_client.errors import ClipError, StateError
from edge_client.owner_page.device import OwnedDevice
from edge_client.owner_page.pages import read_form


class PausingPage:
    """What the address of the button answers."""

    def __init__(self, device: OwnedDevice) -> None:
        self._device = device

    def routes(self) -> list[Route]:
        """Return the addresses."""
        return [Route("/pause", self.state), Route("/pause", self.switch, methods=["POST"])]

    def state(self, _: Request) -> Response:
        """Say whether the device is paused."""
        return JSONResponse(self._shown())

    async def switch(self, request: Request) -> Response:
        """Pause the device, and answer once all is closed; or end the pause. Raises EdgeError if that cannot be."""
        form = await read_form(request)
        await run_in_threadpool(self._switch, form.get("do", ""), form.get("for", ""))
        return JSONResponse(self._shown())

    def _switch(self, do: str, span: str) -> None:
        pauses, state = self._device.pauses(), self._device.state
        if do == "resume":
            pauses.resume()
            return
        if do != "pause":
            raise ClipError(f"{do[:100]!r} is no answer to that; pause or resume")
        pauses.pause("page", seconds_of(span) if span else None)
        if not has_closed(state, pauses):
            raise StateError(f"the daemon did not close the microphone within {PATIENCE_S:g} s: stop it")

    def _shown(self) -> dict[str, Any]:
        return {"paused": self._device.paused()}
