"""Recordings that a browser sends, one at a time; each passes what `auricle-edge import` asks of a file."""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from edge_client.audio.recordings import SUFFIXES
from edge_client.clips.importing import Summary
from edge_client.errors import ClipError
from edge_client.owner import Teaching
from edge_client.owner_changes import import_recordings
from edge_client.owner_page.device import OwnedDevice
from fleet_protocol.bundle.feature_settings import FeatureSettings

# Of one recording: more than a minute, of which no more is read, in two channels at 48 kHz.
LARGEST_BYTES = 16 * 2**20
# For one recording to come.
_LONGEST_S = 60.0
# Recordings of a label that follow each other within so many seconds are taken back together.
_TOGETHER_S = 60.0
_NAME = 80


def adding(settings: FeatureSettings) -> dict[str, Any]:
    """Return what the form needs to know: which files are read here, and what a browser makes of others."""
    rate_hz, clip_s = settings.sample_rate_hz, settings.clip_s
    return {"largest": LARGEST_BYTES, "rate_hz": rate_hz, "clip_s": clip_s, "suffixes": sorted(SUFFIXES)}


class AddingPage:
    """Takes recordings; a second one is refused while one is read, since each may need much memory."""

    def __init__(self, device: OwnedDevice) -> None:
        self._device = device
        self._busy = asyncio.Lock()

    async def add(self, request: Request) -> Response:
        """Take the body for a recording of a ``label``, with its file's ``name``. Raises EdgeError if it is refused."""
        if self._busy.locked():
            raise ClipError("another recording is being added; wait a moment, then try again")
        async with self._busy:
            teaching = await run_in_threadpool(self._device.teaching)
            label = teaching.require_slot(request.query_params.get("label", "").strip())
            name = re.sub(r"[^\w.-]+", "_", request.query_params.get("name", ""))[-_NAME:].lstrip(".") or "recording"
            with tempfile.TemporaryDirectory(prefix="auricle-") as folder:
                await _save(request, Path(folder) / name)
                told = await run_in_threadpool(_import, teaching, label, Path(folder) / name)
        return JSONResponse({"message": told, "after": teaching.after(terminal=False)})


async def _save(request: Request, path: Path) -> None:
    """Write the body into a file as it comes: in memory it would stand beside what is made of it."""
    length = 0
    try:
        with path.open("wb") as file:
            async with asyncio.timeout(_LONGEST_S):
                async for part in request.stream():
                    length += len(part)
                    if length > LARGEST_BYTES:
                        raise ClipError(
                            f"a recording of more than {LARGEST_BYTES // 2**20} MB is refused: cut out the sound, or "
                            "use `auricle-edge import` on the device"
                        )
                    file.write(part)
    except ClientDisconnect:
        raise ClipError("the browser left before the recording was whole") from None
    except TimeoutError:
        raise ClipError(f"the recording did not come within {_LONGEST_S:g} seconds: send a shorter one") from None


def _import(teaching: Teaching, label: str, path: Path) -> str:
    """Store a recording; return what became of it, or raise why it is refused, in words that know its name alone."""
    found, act = Summary(), next(iter(teaching.acts.all()), None)
    if act is not None and ((act.kind, act.label) != ("added", label) or abs(time.time() - act.at) > _TOGETHER_S):
        act = None
    import_recordings(teaching, path, label, teaching.require_slot, found, act=act)
    for problem in found.refused.values():
        raise ClipError(problem.replace(f"{path.parent}/", ""))
    return "The device has it already." if found.present else "The device keeps it."
