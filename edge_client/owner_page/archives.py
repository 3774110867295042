"""What an owner takes from one device to another, as a file that the browser saves, or sends."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from typing import BinaryIO

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from edge_client.errors import ClipError
from edge_client.owner_archive import exported, largest_bytes, take_in
from edge_client.owner_page.device import OwnedDevice

# For a file to come.
_LONGEST_S = 600.0


class ArchivePage:
    """Writes such files, and takes in one at a time."""

    def __init__(self, device: OwnedDevice) -> None:
        self._device = device
        self._busy = asyncio.Lock()

    def routes(self) -> list[Route]:
        """Return the addresses."""
        return [Route("/sounds/export", self.export), Route("/sounds/import", self.take_in, methods=["POST"])]

    def export(self, _: Request) -> Response:
        """Return the file, part by part. Raises ClipError if there is nothing in it."""
        teaching = self._device.teaching()
        parts: Iterator[bytes] = exported(teaching, [])
        headers = {"content-disposition": 'attachment; filename="auricle-clips.zip"'}
        return StreamingResponse(parts, headers=headers, media_type="application/zip")

    async def take_in(self, request: Request) -> Response:
        """Take in the body. Raises EdgeError if it is refused."""
        if self._busy.locked():
            raise ClipError("another file is being taken in; wait a moment, then try again")
        async with self._busy:
            teaching = await run_in_threadpool(self._device.teaching)
            # On the device's own disk, without a name: it is gone with this process.
            with tempfile.TemporaryFile(dir=self._device.state.folder) as file:
                await _receive(request, file, largest_bytes(teaching))
                result = await run_in_threadpool(take_in, teaching, file)
        after = teaching.after(terminal=False) if result.stored else ""
        return JSONResponse(
            {"message": f"{' '.join(line.rstrip('.') + '.' for line in result.lines())} {after}".rstrip()}
        )


async def _receive(request: Request, file: BinaryIO, largest: int) -> None:
    size = 0
    try:
        async with asyncio.timeout(_LONGEST_S):
            async for part in request.stream():
                size += len(part)
                if size > largest:
                    raise ClipError(f"a file of more than {largest / 1e6:.0f} MB is refused: so much is no clip store")
                await run_in_threadpool(file.write, part)
    except ClientDisconnect:
        raise ClipError("the browser left before the file was whole") from None
    except TimeoutError:
        raise ClipError(f"the file did not come within {_LONGEST_S:g} seconds") from None
