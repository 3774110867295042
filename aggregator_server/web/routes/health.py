"""Whether the server is up."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import APIRouter

from aggregator_server.rounds.views import show_open_round
from aggregator_server.schemas import Health
from aggregator_server.store.free_space import free_space
from aggregator_server.web.http_errors import documented
from aggregator_server.web.routes.access import CurrentService

router = APIRouter(tags=["health"])


@router.get("/v1/health", summary="Tell that the server is up", responses=documented())
def health(service: CurrentService) -> Health:
    """Say which version runs, which round is open, and whether the disk has room for uploads."""
    room = free_space(service.store.blobs.folder)
    status = "ok" if room.enough else "storage_full"
    return Health(status, version("auricle"), show_open_round(service.store), room.free, room.total)
