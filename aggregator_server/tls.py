"""Certificates: an authority of the server's own, made once, and the server's certificate that it signs.

A device pins the authority when it joins, so the server may change its certificate, its name and its address.
"""

import hashlib
import socket
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from aggregator_server.errors import StartError
from aggregator_server.server_address import own_address


@dataclass(frozen=True)
class Certificate:
    """What the server speaks TLS with."""

    file: Path  # certificate chain, PEM; with ``--tls auto`` the key stands in it too
    key: Path | None = None  # private key, PEM; None where it stands in ``file``
    # Certificate of the server's own authority, PEM; None where another one vouches for it.
    authority: str | None = None


def fingerprint(certificate: str) -> str:
    """Return the SHA-256 of a certificate (PEM), 64 hex digits."""
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate)).hexdigest()


def given(file: Path, key: Path) -> Certificate:
    """Take a certificate from elsewhere. Raises StartError: the files cannot be used."""
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(file, key)
    except (OSError, ssl.SSLError) as error:
        raise StartError(f"--tls-cert {file} and --tls-key {key} cannot be used: {error}") from error
    return Certificate(file, key)


def automatic(folder: Path, names: Iterable[str], now: datetime) -> Certificate:
    """Make an authority once, and a certificate of this machine whenever the present one is old or lacks a name.

    The keys are kept in the folder ``tls`` of the data folder, readable by their owner alone. ``names``: besides those
    that this machine knows itself. Raises StartError: a file cannot be used, or ``cryptography`` is not installed.
    """
    try:
        from aggregator_server import certificates
    except ImportError as error:
        raise StartError("--tls auto needs the package cryptography: pip install 'auricle[server]'") from error
    authority_file, server_file = folder / "tls" / "authority.pem", folder / "tls" / "server.pem"
    name = socket.gethostname()
    own = {"localhost", "127.0.0.1", "::1", name, f"{name.partition('.')[0]}.local", own_address()}
    wanted = sorted({*names, *own})
    try:
        if not authority_file.exists():
            certificates.make_authority(authority_file)
        key, authority = certificates.read(authority_file)
        good = server_file.exists() and certificates.is_good(certificates.read(server_file)[1], authority, wanted, now)
        if not good:
            certificates.make_certificate(server_file, key, authority, wanted, now)
    except certificates.UNUSABLE as error:
        raise StartError(
            f"{folder / 'tls'} cannot be used ({error}); restore it from a backup. If you remove it, every device has "
            "to join again"
        ) from error
    return Certificate(server_file, authority=certificates.pem(authority))


def end_of(folder: Path) -> datetime:
    """Return when the certificate ends that :func:`automatic` made. Raises StartError: it is not there, or damaged."""
    from aggregator_server import certificates

    path = folder / "tls" / "server.pem"
    try:
        return certificates.read(path)[1].not_valid_after_utc
    except (OSError, ValueError) as error:
        raise StartError(f"{path} cannot be used: {error}") from error
