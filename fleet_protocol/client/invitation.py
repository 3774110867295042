"""The server behind an invitation: whether it is the one that invited."""

from __future__ import annotations

from contextlib import closing

from fleet_protocol.client.certificates import fingerprint
from fleet_protocol.client.server_client import ServerClient
from fleet_protocol.errors import CertificateError


def fetch_authority(url: str, sha256: str | None) -> str | None:
    """Fetch the certificate of the aggregator's authority, and check that it is the one of the invitation.

    None where the invitation names none: public ones vouch for the aggregator, or nobody.
    """
    if sha256 is None:
        return None
    with closing(ServerClient(url, None)) as client:
        certificate = client.authority()
    if fingerprint(certificate) != sha256:
        raise CertificateError(
            f"{url} is not the aggregator that invited: the SHA-256 of its authority is {fingerprint(certificate)}, "
            f"the invitation says {sha256}. Somebody may be in between; ask whoever invited you"
        )
    return certificate
