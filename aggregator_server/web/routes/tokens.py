"""Administrators make and revoke the tokens of people, and invite devices."""

import time
from typing import Annotated, Any

from fastapi import APIRouter, Path

from aggregator_server import schemas
from aggregator_server.fleet import tokens
from aggregator_server.web.routes.access import Admin, By, CurrentService, for_people

router = APIRouter()
InvitationId = Annotated[int, Path(ge=1, lt=2**31)]
_TOKENS: dict[str, Any] = {"tags": ["tokens"]}
_INVITATIONS: dict[str, Any] = {"tags": ["invitations"]}


@router.post("/v1/tokens", **for_people(Admin, "Make a token", "too_large invalid_request", **_TOKENS, status_code=201))
def add(service: CurrentService, by: By, wanted: schemas.TokenRequest) -> schemas.NewToken:
    """Make a person's token. The answer alone shows it: the server keeps a hash."""
    return tokens.add_token(service.store, wanted, by, time.time())


@router.get("/v1/tokens", **for_people(Admin, "List the tokens", **_TOKENS))
def list_tokens(service: CurrentService) -> tuple[schemas.TokenInfo, ...]:
    """List every token of people without its text, oldest first, revoked and expired ones included."""
    return tokens.list_tokens(service.store)


@router.delete(
    "/v1/tokens/{token_id}",
    **for_people(Admin, "Revoke a token", "token_not_found invalid_request", **_TOKENS, status_code=204),
)
def revoke(service: CurrentService, by: By, token_id: Annotated[int, Path(ge=1, lt=2**31)]) -> None:
    """Refuse a token from now on."""
    tokens.revoke_token(service.store, token_id, by, time.time())


@router.post(
    "/v1/invitations",
    **for_people(Admin, "Invite devices", "too_large invalid_request", **_INVITATIONS, status_code=201),
)
def invite(service: CurrentService, by: By, wanted: schemas.InvitationRequest) -> schemas.NewInvitation:
    """Make an invitation, for one device unless it says more. The answer alone shows it: the server keeps a hash."""
    return tokens.invite(service.store, wanted, by, time.time())


@router.get("/v1/invitations", **for_people(Admin, "List the invitations", **_INVITATIONS))
def list_invitations(service: CurrentService) -> tuple[schemas.InvitationInfo, ...]:
    """List every invitation without its text, oldest first, spent ones included."""
    return tokens.list_invitations(service.store)


@router.delete(
    "/v1/invitations/{invitation_id}",
    **for_people(
        Admin, "Revoke an invitation", "invitation_not_found invalid_request", **_INVITATIONS, status_code=204
    ),
)
def revoke_invitation(service: CurrentService, by: By, invitation_id: InvitationId) -> None:
    """Let nobody in by an invitation from now on. Devices that joined by it stay."""
    tokens.revoke_invitation(service.store, invitation_id, by, time.time())
