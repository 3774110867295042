"""How the server is: whether it is up, who vouches for it, metrics for Prometheus, and the audit."""

import time
from importlib.metadata import version
from typing import Annotated

from fastapi import APIRouter, Query, Response
from prometheus_client import CONTENT_TYPE_LATEST

from aggregator_server.errors import RefusedError
from aggregator_server.fleet.audit import What, list_entries
from aggregator_server.rounds.queries import OPEN_ROUND
from aggregator_server.schemas import AuditEntry, Health, Liveness
from aggregator_server.store.free_space import free_space
from aggregator_server.web.http_errors import documented
from aggregator_server.web.metrics import write_metrics
from aggregator_server.web.routes.access import CurrentService, Viewer, for_people
from fleet_protocol.messages.rest import Authority

router = APIRouter()
_VERSION = version("auricle")  # asked of the disk once


@router.get("/v1/health", summary="Tell that the server is up", tags=["health"], responses=documented())
async def health(service: CurrentService) -> Health:
    """Say which version runs, which round is open, and whether the disk has space for uploads."""
    room = free_space(service.store.blobs.folder)
    status = "ok" if room.enough else "storage_full"
    store, found = service.store, service.store.first_row(OPEN_ROUND, {})
    return Health(status, _VERSION, store.instance, found and found.round_id, room.free, room.total)


@router.get("/v1/health/alive", summary="Tell that the process answers", tags=["health"], responses=documented())
async def alive() -> Liveness:
    """Say so, whatever else is wrong: who restarts servers that do not answer asks here."""
    return Liveness("alive")


@router.get(
    "/v1/health/ready",
    summary="Tell whether the server can do its work",
    responses=documented("not_ready"),
    tags=["health"],
)
async def ready(service: CurrentService) -> Liveness:
    """Use the database and the store once: a load balancer asks here whether to send this server requests."""
    await service.readiness.require()
    return Liveness("ready")


@router.get(
    "/v1/authority",
    summary="Show the server's certificate authority",
    responses=documented("authority_not_found"),
    tags=["health"],
)
def authority(service: CurrentService) -> Authority:
    """Return the certificate of the server's own authority, where it runs with ``--tls auto``.

    A device fetches it before it trusts the server, and compares its SHA-256 with that of its invitation.
    """
    if service.terms.authority is None:
        raise RefusedError(
            "authority_not_found", "this server has no authority of its own; it does not run with --tls auto"
        )
    return Authority(service.terms.authority)


# Not of the schema: its body is Prometheus' own, and docs/operating.md lists what is in it.
@router.get("/metrics", dependencies=[Viewer], include_in_schema=False)
def metrics(service: CurrentService) -> Response:
    """Return how the fleet is, in Prometheus' text format. Prometheus sends the token of a viewer."""
    return Response(write_metrics(service.store, time.time()), media_type=CONTENT_TYPE_LATEST)


@router.get("/v1/audit", **for_people(Viewer, "Read the audit", "invalid_request", tags=["audit"]))
def show_audit(
    service: CurrentService,
    before: Annotated[int | None, Query(ge=1, lt=2**63, description="only entries with a smaller number")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="at most so many")] = 100,
    what: Annotated[What | None, Query(description="only entries of this kind")] = None,
) -> tuple[AuditEntry, ...]:
    """List what happened, newest first. No entry holds a secret."""
    return list_entries(service.store, before, limit, what)
