"""Certificates: an authority of the server's own, made once, and the server's certificate that it signs.

A device pins the authority when it joins, so the server may change its certificate, its name and its address.
"""

from __future__ import annotations

import hashlib
import ipaddress
import socket
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from aggregator_server.errors import StartError
from aggregator_server.server_address import own_address
from fleet_protocol.atomic_files import write_durably

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

# A board without a clock of its own may wake in the past.
_VALID_FROM = datetime(2020, 1, 1, tzinfo=UTC)
_AUTHORITY_DAYS = 50 * 365
_SERVER_DAYS = 5 * 365
_RENEWED_DAYS = 365  # before the end


@dataclass(frozen=True)
class Certificate:
    """What the server speaks TLS with.

    Attributes:
        file: Certificate chain, PEM; with ``--tls auto`` the key stands in it too.
        key: Private key, PEM; None where it stands in ``file``.
        authority: Certificate of the server's own authority, PEM; None where another one vouches for it.
    """

    file: Path
    key: Path | None = None
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

    Args:
        folder: the data folder; the keys are kept in its folder ``tls``, readable by their owner alone.
        names: names and numbers of this machine, besides those that it knows itself.
        now: a time with a zone.

    Raises:
        StartError: a file cannot be used, or ``cryptography`` is not installed.
    """
    try:
        from cryptography import x509
    except ImportError as error:
        raise StartError("--tls auto needs the package cryptography: pip install 'auricle[server]'") from error
    authority_file, server_file = folder / "tls" / "authority.pem", folder / "tls" / "server.pem"
    wanted = sorted({*names, *_own_names()})
    try:
        if not authority_file.exists():
            _make_authority(authority_file)
        key, authority = _read(authority_file)
        if not server_file.exists() or not _will_do(_read(server_file)[1], authority, wanted, now):
            _make_certificate(server_file, key, authority, wanted, now)
    except (OSError, ValueError, x509.ExtensionNotFound) as error:
        raise StartError(
            f"{folder / 'tls'} cannot be used ({error}); restore it from a backup. If you remove it, every device has "
            "to join again"
        ) from error
    return Certificate(server_file, authority=_pem(authority))


def end_of(folder: Path) -> datetime:
    """Return when the certificate ends that :func:`automatic` made. Raises StartError: it is not there, or damaged."""
    path = folder / "tls" / "server.pem"
    try:
        return _read(path)[1].not_valid_after_utc
    except (OSError, ValueError) as error:
        raise StartError(f"{path} cannot be used: {error}") from error


def _own_names() -> set[str]:
    name = socket.gethostname()
    return {"localhost", "127.0.0.1", "::1", name, f"{name.partition('.')[0]}.local", own_address()}


def _read(path: Path) -> tuple[EllipticCurvePrivateKey, x509.Certificate]:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    text = path.read_bytes()
    key = load_pem_private_key(text, password=None)
    if not isinstance(key, EllipticCurvePrivateKey):
        raise ValueError(f"{path} holds another kind of key")
    return key, x509.load_pem_x509_certificate(text)


def _will_do(found: x509.Certificate, authority: x509.Certificate, names: list[str], now: datetime) -> bool:
    from cryptography import x509

    held = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    own = {*held.get_values_for_type(x509.DNSName), *map(str, held.get_values_for_type(x509.IPAddress))}
    young = now < found.not_valid_after_utc - timedelta(days=_RENEWED_DAYS)
    return young and own >= set(names) and found.issuer == authority.subject


def _make_authority(path: Path) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    # A name that no other authority has: a device that holds an old one says so plainly.
    name = _name(f"Auricle authority {x509.random_serial_number():040x}"[:60])
    builder = _builder(name, name, key, _VALID_FROM + timedelta(days=_AUTHORITY_DAYS))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs=True), critical=True)
    _write(path, key, builder, key)


def _make_certificate(
    path: Path, signing_key: EllipticCurvePrivateKey, authority: x509.Certificate, names: list[str], now: datetime
) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_name("Auricle aggregator"), authority.subject, key, now + timedelta(days=_SERVER_DAYS))
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key())
    builder = builder.add_extension(signer, critical=False)
    builder = builder.add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    _write(path, key, builder, signing_key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, end: datetime
) -> x509.CertificateBuilder:
    from cryptography import x509

    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(_VALID_FROM).not_valid_after(end)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def _write(
    path: Path, key: EllipticCurvePrivateKey, builder: x509.CertificateBuilder, signing_key: EllipticCurvePrivateKey
) -> None:
    """Sign a certificate and keep it with its key in one file, so that no power cut parts them."""
    from cryptography.hazmat.primitives import hashes, serialization

    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_durably(path, text + _pem(builder.sign(signing_key, hashes.SHA256())).encode())


def _pem(certificate: x509.Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode()


def _name(text: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general(name: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(*, signs: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )
