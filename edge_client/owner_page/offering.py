"""Sounds that a demonstration offers to teach: its device plays recordings, so that nobody can record there.

A folder holds the takes of each, ``<label>/*.wav``, and in ``<label>/played`` what the device plays once it knows them.
"""

from __future__ import annotations

from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from edge_client.clips.importing import Summary
from edge_client.errors import ClipError
from edge_client.owner import Teaching
from edge_client.owner_changes import import_recordings
from edge_client.owner_page.device import OwnedDevice
from edge_client.owner_page.pages import read_form
from fleet_protocol.ground.atomic_files import write_atomically


class OfferingPage:
    """What the page offers, and what becomes of it; ``folder``: None where nothing is offered."""

    def __init__(self, device: OwnedDevice, folder: Path | None) -> None:
        self._device, self._folder = device, folder

    def labels(self, teaching: Teaching) -> list[str]:
        """Return the sounds that are offered and not known yet."""
        if self._folder is None or not self._device.plays():
            return []
        offered = {path.name for path in self._folder.iterdir() if path.is_dir()}
        return sorted(offered - set(teaching.known_labels()))

    async def teach(self, request: Request) -> Response:
        """Teach an offered sound, and have the device play it from now on. Raises ClipError if it is not offered."""
        label = (await read_form(request)).get("label", "")
        return JSONResponse({"takes": await run_in_threadpool(self._teach, label)})

    def _teach(self, label: str) -> int:
        teaching = self._device.teaching()
        microphone = teaching.config.microphone
        if self._folder is None or label not in self.labels(teaching):
            raise ClipError(f"no sound called {label[:100]!r} is offered (any more)")
        assert microphone is not None
        assert microphone.file is not None
        import_recordings(teaching, self._folder / label, label, teaching.require_slot, Summary())
        for path in sorted((self._folder / label / "played").glob("*.wav")):
            write_atomically(microphone.file / path.name, path.read_bytes())
        return len(teaching.store.clips(label))
