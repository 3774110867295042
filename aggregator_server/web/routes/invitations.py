"""Administrators invite devices."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Path

from aggregator_server.errors import InvalidRequestError, InvitationNotFoundError, TooLargeError
from aggregator_server.fleet import invitations
from aggregator_server.schemas import InvitationInfo, InvitationRequest, NewInvitation
from aggregator_server.web.http_errors import documented
from aggregator_server.web.routes.access import PERSON_ERRORS, Admin, By, CurrentService

router = APIRouter(tags=["invitations"], dependencies=[Admin])
InvitationId = Annotated[int, Path(ge=1, lt=2**31)]


@router.post(
    "/v1/invitations",
    summary="Invite devices",
    status_code=201,
    responses=documented(*PERSON_ERRORS, TooLargeError, InvalidRequestError),
)
def invite(service: CurrentService, by: By, wanted: InvitationRequest) -> NewInvitation:
    """Make an invitation, for one device unless it says more. The answer alone shows it: the server keeps a hash."""
    return invitations.invite(service.store, wanted, by, time.time())


@router.get("/v1/invitations", summary="List the invitations", responses=documented(*PERSON_ERRORS))
def list_invitations(service: CurrentService) -> tuple[InvitationInfo, ...]:
    """List every invitation without its text, oldest first, spent ones included."""
    return invitations.list_invitations(service.store)


@router.delete(
    "/v1/invitations/{invitation_id}",
    summary="Revoke an invitation",
    status_code=204,
    responses=documented(*PERSON_ERRORS, InvitationNotFoundError, InvalidRequestError),
)
def revoke(service: CurrentService, by: By, invitation_id: InvitationId) -> None:
    """Let nobody in by an invitation from now on. Devices that joined by it stay."""
    invitations.revoke_invitation(service.store, invitation_id, by, time.time())
