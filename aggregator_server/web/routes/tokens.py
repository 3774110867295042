"""Administrators make and revoke the tokens of people, and invite devices."""

import time
from typing import Annotated

from fastapi import APIRouter, Path

from aggregator_server.fleet import invitations, tokens
from aggregator_server.schemas import (
    InvitationInfo,
    InvitationRequest,
    NewInvitation,
    NewToken,
    TokenInfo,
    TokenRequest,
)
from aggregator_server.web.http_errors import documented
from aggregator_server.web.routes.access import PERSON_ERRORS, Admin, By, CurrentService

router = APIRouter(dependencies=[Admin])


@router.post(
    "/v1/tokens",
    summary="Make a token",
    tags=["tokens"],
    status_code=201,
    responses=documented(PERSON_ERRORS, "too_large invalid_request"),
)
def add(service: CurrentService, by: By, wanted: TokenRequest) -> NewToken:
    """Make a person's token. The answer alone shows it: the server keeps a hash."""
    return tokens.add_token(service.store, wanted, by, time.time())


@router.get("/v1/tokens", summary="List the tokens", tags=["tokens"], responses=documented(PERSON_ERRORS))
def list_tokens(service: CurrentService) -> tuple[TokenInfo, ...]:
    """List every token of people without its text, oldest first, revoked and expired ones included."""
    return tokens.list_tokens(service.store)


@router.delete(
    "/v1/tokens/{token_id}",
    summary="Revoke a token",
    tags=["tokens"],
    status_code=204,
    responses=documented(PERSON_ERRORS, "token_not_found invalid_request"),
)
def revoke(service: CurrentService, by: By, token_id: Annotated[int, Path(ge=1, lt=2**31)]) -> None:
    """Refuse a token from now on."""
    tokens.revoke_token(service.store, token_id, by, time.time())


InvitationId = Annotated[int, Path(ge=1, lt=2**31)]


@router.post(
    "/v1/invitations",
    summary="Invite devices",
    tags=["invitations"],
    status_code=201,
    responses=documented(PERSON_ERRORS, "too_large invalid_request"),
)
def invite(service: CurrentService, by: By, wanted: InvitationRequest) -> NewInvitation:
    """Make an invitation, for one device unless it says more. The answer alone shows it: the server keeps a hash."""
    return invitations.invite(service.store, wanted, by, time.time())


@router.get(
    "/v1/invitations", summary="List the invitations", tags=["invitations"], responses=documented(PERSON_ERRORS)
)
def list_invitations(service: CurrentService) -> tuple[InvitationInfo, ...]:
    """List every invitation without its text, oldest first, spent ones included."""
    return invitations.list_invitations(service.store)


@router.delete(
    "/v1/invitations/{invitation_id}",
    summary="Revoke an invitation",
    tags=["invitations"],
    status_code=204,
    responses=documented(PERSON_ERRORS, "invitation_not_found invalid_request"),
)
def revoke_invitation(service: CurrentService, by: By, invitation_id: InvitationId) -> None:
    """Let nobody in by an invitation from now on. Devices that joined by it stay."""
    invitations.revoke_invitation(service.store, invitation_id, by, time.time())
