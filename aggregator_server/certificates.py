"""X.509 certificates of ``--tls auto``. It loads ``cryptography``: ``aggregator_server/tls.py`` imports it late."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fleet_protocol.ground.atomic_files import write_durably

# A board without a clock of its own may wake in the past.
_VALID_FROM = datetime(2020, 1, 1, tzinfo=UTC)
_AUTHORITY_DAYS = 50 * 365
_SERVER_DAYS = 5 * 365
_RENEWED_DAYS = 365  # before the end


UNUSABLE = (OSError, ValueError, x509.ExtensionNotFound)
"""What reading a file, or looking at its certificate, raises where it is damaged."""


def read(path: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """Return the private key and the certificate in a PEM file."""
    text = path.read_bytes()
    key = serialization.load_pem_private_key(text, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{path} holds another kind of key")
    return key, x509.load_pem_x509_certificate(text)


def is_good(found: x509.Certificate, authority: x509.Certificate, names: list[str], now: datetime) -> bool:
    """Return whether a certificate is the authority's, has all names, and lasts for another year."""
    held = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    own = {*held.get_values_for_type(x509.DNSName), *map(str, held.get_values_for_type(x509.IPAddress))}
    young = now < found.not_valid_after_utc - timedelta(days=_RENEWED_DAYS)
    return young and own >= set(names) and found.issuer == authority.subject


def make_authority(path: Path) -> None:
    """Write the key and certificate of a new authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    # A name that no other authority has: a device that holds an old one says so plainly.
    name = _name(f"Auricle authority {x509.random_serial_number():040x}"[:60])
    builder = _builder(name, name, key, _VALID_FROM + timedelta(days=_AUTHORITY_DAYS))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs=True), critical=True)
    _write(path, key, builder, key)


def make_certificate(
    path: Path, signing_key: ec.EllipticCurvePrivateKey, authority: x509.Certificate, names: list[str], now: datetime
) -> None:
    """Write a new key and its certificate, which an authority signs."""
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
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, end: datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(_VALID_FROM).not_valid_after(end)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def _write(
    path: Path,
    key: ec.EllipticCurvePrivateKey,
    builder: x509.CertificateBuilder,
    signing_key: ec.EllipticCurvePrivateKey,
) -> None:
    """Sign a certificate and keep it with its key in one file, so that no power cut parts them."""
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_durably(path, text + pem(builder.sign(signing_key, hashes.SHA256())).encode())


def pem(certificate: x509.Certificate) -> str:
    """Return a certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(*, signs: bool) -> x509.KeyUsage:
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
