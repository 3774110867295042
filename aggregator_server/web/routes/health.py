"""Whether the server is up, and who vouches for it."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import APIRouter

from aggregator_server.errors import AuthorityNotFoundError
from aggregator_server.rounds.views.replies import read_open_round_number
from aggregator_server.schemas import Health
from aggregator_server.store.free_space import free_space
from aggregator_server.web.http_errors import documented
from aggregator_server.web.routes.access import CurrentService
from fleet_protocol.messages import Authority

router = APIRouter(tags=["health"])
_VERSION = version("auricle")  # asked of the disk once


@router.get("/v1/health", summary="Tell that the server is up", responses=documented())
async def health(service: CurrentService) -> Health:
    """Say which version runs, which round is open, and whether the disk has room for uploads."""
    room = free_space(service.store.blobs.folder)
    status = "ok" if room.enough else "storage_full"
    return Health(status, _VERSION, read_open_round_number(service.store), room.free, room.total)


@router.get(
    "/v1/authority",
    summary="Show the server's certificate authority",
    responses=documented(AuthorityNotFoundError),
)
def authority(service: CurrentService) -> Authority:
    """Return the certificate of the server's own authority, where it runs with ``--tls auto``.

    A device fetches it before it trusts the server, and compares its SHA-256 with that of its invitation.
    """
    if service.terms.authority is None:
        raise AuthorityNotFoundError("this server has no authority of its own; it does not run with --tls auto")
    return Authority(service.terms.authority)
