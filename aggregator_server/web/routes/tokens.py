"""Administrators make and revoke the tokens of people."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Path

from aggregator_server.errors import InvalidRequestError, TokenNotFoundError, TooLargeError
from aggregator_server.fleet import tokens
from aggregator_server.schemas import NewToken, TokenInfo, TokenRequest
from aggregator_server.web.http_errors import documented
from aggregator_server.web.routes.access import PERSON_ERRORS, Admin, By, CurrentService

router = APIRouter(tags=["tokens"], dependencies=[Admin])


@router.post(
    "/v1/tokens",
    summary="Make a token",
    status_code=201,
    responses=documented(*PERSON_ERRORS, TooLargeError, InvalidRequestError),
)
def add(service: CurrentService, by: By, wanted: TokenRequest) -> NewToken:
    """Make a person's token. The answer alone shows it: the server keeps a hash."""
    return tokens.add_token(service.store, wanted, by, time.time())


@router.get("/v1/tokens", summary="List the tokens", responses=documented(*PERSON_ERRORS))
def list_tokens(service: CurrentService) -> tuple[TokenInfo, ...]:
    """List every token of people without its text, oldest first, revoked and expired ones included."""
    return tokens.list_tokens(service.store)


@router.delete(
    "/v1/tokens/{token_id}",
    summary="Revoke a token",
    status_code=204,
    responses=documented(*PERSON_ERRORS, TokenNotFoundError, InvalidRequestError),
)
def revoke(service: CurrentService, by: By, token_id: Annotated[int, Path(ge=1, lt=2**31)]) -> None:
    """Refuse a token from now on."""
    tokens.revoke_token(service.store, token_id, by, time.time())
