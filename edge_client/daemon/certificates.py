"""Which server a device trusts: the one whose authority it pinned when it joined, or one that public authorities know.

docs/security.md, "TLS", says what is checked and what is not.
"""

from __future__ import annotations

import hashlib
import ssl
import time

from edge_client.errors import CertificateError

# Of X509_V_ERR_* (OpenSSL, x509_vfy.h).
_NOT_YET_VALID, _EXPIRED, _OTHER_NAME = 9, 10, 62


def trust(authority: str | None) -> ssl.SSLContext | bool:
    """Return what a connection is verified with, as httpx takes it.

    Args:
        authority: certificate of the pinned authority, PEM; None: the public ones are trusted.

    Raises:
        CertificateError: it is no certificate.
    """
    if authority is None:
        return True
    try:
        context = ssl.create_default_context(cadata=authority)
    except (ssl.SSLError, ValueError) as error:
        raise CertificateError(f"the pinned authority is no certificate ({error}); join the fleet again") from error
    # The authority vouches for this one server, whatever its name and address are by now.
    context.check_hostname = False
    return context


def trust_nobody_yet() -> ssl.SSLContext:
    """Return what fetches an authority's certificate: no secret may be sent over such a connection."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def fingerprint(certificate: str) -> str:
    """Return the SHA-256 of a certificate (PEM), 64 hex digits.

    Raises:
        CertificateError: it is no certificate.
    """
    try:
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate)).hexdigest()
    except ValueError as error:
        raise CertificateError(f"the server's authority is no certificate: {error}") from error


def refusal(error: BaseException, url: str, authority: str | None) -> CertificateError | None:
    """Return what to say of an error that a certificate caused; None where it had another cause."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        return None
    return CertificateError(f"{url} is not trusted: {_reason(cause, authority)}")


def _reason(error: ssl.SSLCertVerificationError, authority: str | None) -> str:
    today = time.strftime("%Y-%m-%d")
    if error.verify_code == _EXPIRED:
        return (
            f"its certificate has expired, or this device's clock is wrong (it says {today}). An aggregator with --tls "
            "auto renews its certificate when it starts"
        )
    if error.verify_code == _NOT_YET_VALID:
        return f"its certificate is not valid yet, or this device's clock is wrong (it says {today})"
    if error.verify_code == _OTHER_NAME:
        return f"its certificate is for another name ({error.verify_message})"
    if authority is None:
        return (
            f"no public authority vouches for its certificate ({error.verify_message}). If it runs with --tls auto, "
            "join by an invitation (`auricle-edge join LINK`), which names its authority"
        )
    return (
        "the authority that this device pinned when it joined (SHA-256 "
        f"{fingerprint(authority)[:16]}...) does not vouch for its certificate. Another server answers there, or "
        "somebody is in between. If the aggregator was set up anew, ask for an invitation and run `auricle-edge join "
        "LINK`"
    )
