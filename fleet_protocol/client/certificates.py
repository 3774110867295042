"""Which server a device trusts: the one whose authority it pinned when it joined, or one that public authorities know.

docs/security.md, "TLS", says what is checked and what is not.
"""

import base64
import hashlib
import re
import ssl
import time

from fleet_protocol.errors import CertificateError

# RFC 7468, section 3, "strict": nothing but whitespace around it, and at most 16 KiB; an aggregator's has 700 bytes.
_PEM = re.compile(
    r"\s*-----BEGIN CERTIFICATE-----\r?\n([A-Za-z0-9+/\r\n]+={0,2})\r?\n-----END CERTIFICATE-----\s*", re.ASCII
)
_LARGEST_PEM = 1 << 14
# Of X509_V_ERR_* (OpenSSL, x509_vfy.h).
_NOT_YET_VALID, _EXPIRED, _OTHER_NAME = 9, 10, 62


def trust(authority: str | None) -> ssl.SSLContext | bool:
    """Return what httpx verifies by: the authority that was pinned, PEM, or public ones. Raises CertificateError."""
    if authority is None:
        return True
    try:
        context = _trusting(_der(authority))
    except (ssl.SSLError, ValueError) as error:
        raise CertificateError(
            f"what this device pinned when it joined is not one authority's certificate ({error}). Somebody may have "
            "been in between, and may know this device's secret: have the device revoked, run "
            "`auricle-edge leave --forget`, and join again by a new invitation (`auricle-edge join LINK`)"
        ) from error
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
    """Return the SHA-256 of a certificate (PEM), 64 hex digits. Raises CertificateError if it is not exactly one."""
    try:
        return hashlib.sha256(_der(certificate)).hexdigest()
    except ValueError as error:
        raise CertificateError(
            f"what the server shows as its authority is not one certificate ({error}). Somebody may be in between; ask "
            "whoever invited you"
        ) from error


def _der(text: str) -> bytes:
    """Return the bytes of the one certificate that a text (PEM) consists of; raise a ValueError for any other text."""
    # The ssl module is lax: it takes the first bytes that it can decode for the certificate, while OpenSSL trusts each
    # one that it finds in the text.
    found = _PEM.fullmatch(text) if len(text) <= _LARGEST_PEM else None
    if found is None:
        raise ValueError(f"{len(text)} characters with {text.count('-----BEGIN')} PEM blocks, not one and nothing else")
    return base64.b64decode("".join(found[1].split()), validate=True)


def _trusting(authority: bytes) -> ssl.SSLContext:
    """Return a context that trusts an authority (DER) and no other; raise ssl.SSLError, ValueError if it is none."""
    context = ssl.create_default_context(cadata=authority)
    if context.get_ca_certs(binary_form=True) != [authority] or context.cert_store_stats()["x509"] != 1:
        raise ValueError(f"{len(authority)} bytes that are not one authority's certificate alone")
    return context


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
        "somebody is in between. If the aggregator was set up anew, ask for an invitation and run "
        "`auricle-edge join LINK`"
    )
