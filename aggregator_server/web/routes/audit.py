"""What happened: people read it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from aggregator_server.errors import InvalidRequestError
from aggregator_server.fleet.audit import What, list_entries
from aggregator_server.schemas import AuditEntry
from aggregator_server.web.http_errors import documented
from aggregator_server.web.routes.access import PERSON_ERRORS, CurrentService, Viewer

router = APIRouter(tags=["audit"])


@router.get(
    "/v1/audit",
    summary="Read the audit",
    dependencies=[Viewer],
    responses=documented(*PERSON_ERRORS, InvalidRequestError),
)
def show_audit(
    service: CurrentService,
    before: Annotated[int | None, Query(ge=1, lt=2**63, description="only entries with a smaller number")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="at most so many")] = 100,
    what: Annotated[What | None, Query(description="only entries of this kind")] = None,
) -> tuple[AuditEntry, ...]:
    """List what happened, newest first. No entry holds a secret."""
    return list_entries(service.store, before, limit, what)
