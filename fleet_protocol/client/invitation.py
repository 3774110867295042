"""The server behind an invitation: which of its addresses answers, and whether it is the one that invited."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing
from typing import TypeVar

from fleet_protocol.addresses import InvitationLink
from fleet_protocol.client.certificates import fingerprint
from fleet_protocol.client.server_client import ServerClient
from fleet_protocol.errors import CertificateError, UnreachableError

log = logging.getLogger(__name__)

T = TypeVar("T")


def at_one_of(link: InvitationLink, attempt: Callable[[str, str | None], T]) -> T:
    """Do something at the first address that can be used, given it and the authority that the invitation names.

    Raises UnreachableError, for one address as that has it, if there is none; whatever else the attempt raises.
    """
    problems: list[UnreachableError] = []
    for url in link.addresses:
        try:
            return attempt(url, None if link.authority is None else fetch_authority(url, link.authority))
        except UnreachableError as error:
            problems.append(error)
            if len(link.addresses) > 1:
                log.warning("%s", error)
    if len(problems) == 1:
        raise problems[0]
    raise UnreachableError("none of the invitation's addresses can be used: " + "; ".join(map(str, problems)))


def fetch_authority(url: str, sha256: str) -> str:
    """Fetch the certificate of the aggregator's authority, and check that it is the one of the invitation."""
    with closing(ServerClient(url, None)) as client:
        certificate = client.authority()
    if fingerprint(certificate) != sha256:
        raise CertificateError(
            f"{url} is not the aggregator that invited: the SHA-256 of its authority is {fingerprint(certificate)}, "
            f"the invitation says {sha256}. Somebody may be in between; ask whoever invited you"
        )
    return certificate
