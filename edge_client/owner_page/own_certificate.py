"""The page's own certificate, signed by itself, where its owner names none: the program ``openssl`` makes it.

It is no authority: a phone that trusts it trusts this page alone.
"""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import re
import socket
import ssl
import subprocess
from collections.abc import Iterable
from pathlib import Path

from edge_client.config.sections import UiConfig
from edge_client.errors import ConfigError
from fleet_protocol.ground.addresses import is_address
from fleet_protocol.ground.atomic_files import write_durably

log = logging.getLogger(__name__)

_FILE = "page.pem"
_OPENSSL_S = 60
_DAY_S = 86_400
# iPhones take no longer one. Within the last year the page makes a new one.
_DAYS, _RENEWED_DAYS = 820, 365
_BLOCK = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n", re.DOTALL)


def own_certificate(state: Path, config: UiConfig) -> Path:
    """Return a file (PEM) with key and certificate for the page's names, in the state folder, readable by its user.

    It is kept until it is old, damaged, or lacks a name. Raises ConfigError: ``openssl`` is not there, or makes none;
    OSError: the file cannot be written.
    """
    path, names = state / _FILE, own_names(config)
    if path.exists():
        why = _flaw(path, names)
        if not why:
            return path
        log.warning("%s %s; another certificate is made, of which browsers warn again", path, why)
    made = _openssl("req", "-x509", "-config", "/dev/stdin", "-days", str(_DAYS), "-keyout", "-", given=_request(names))
    write_durably(path, made.encode())
    return path


def own_names(config: UiConfig) -> set[str]:
    """Return the names and addresses by which browsers may ask for a page without a certificate from elsewhere."""
    machine = socket.gethostname().lower()
    names = {"localhost", machine, f"{machine}.local", *(name.lower() for name in (config.host, *config.names))}
    return {name for name in names if not (is_address(name) and ipaddress.ip_address(name).is_unspecified)}


def fingerprint(path: Path) -> str:
    """Return the SHA-256 of a file's certificate as browsers write it: 32 pairs of hex digits. Raises ValueError."""
    found = _BLOCK.search(path.read_text(encoding="ascii"))
    if found is None:
        raise ValueError(f"{path} holds no certificate")
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(found[0])).digest().hex(":").upper()


def _flaw(path: Path, names: Iterable[str]) -> str:
    """Return why a certificate is used no more, "" where it is."""
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(path, password="")  # never asks for one
    except OSError as error:  # of which SSLError is one
        return f"cannot be used ({error})"
    looked = ("x509", "-in", str(path), "-noout", "-ext", "subjectAltName")
    held = {_plain(name) for name in re.findall(r"(?:DNS|IP Address):([^,\s]+)", _openssl(*looked))}
    if missing := sorted({_plain(name) for name in names} - held):
        return f"is not for {', '.join(missing)}"
    if not _openssl("x509", "-in", str(path), "-noout", "-checkend", str(_RENEWED_DAYS * _DAY_S), may_fail=True):
        return "ends within a year"
    return ""


def _request(names: Iterable[str]) -> str:
    held = ",".join(f"{'IP' if is_address(name) else 'DNS'}:{name}" for name in sorted(names))
    return (
        "[req]\ndistinguished_name=name\nx509_extensions=extensions\nprompt=no\nencrypt_key=no\n"
        "default_md=sha256\n[name]\nCN=Auricle page\n"
        "[extensions]\nbasicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n"
        f"extendedKeyUsage=serverAuth\nsubjectKeyIdentifier=hash\nsubjectAltName={held}\n"
    )


def _openssl(*arguments: str, given: str = "", may_fail: bool = False) -> str:
    """Return what openssl prints; "" where it says no, and may. Raises ConfigError."""
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256") if arguments[0] == "req" else ()
    instead = "name another certificate and key in [ui], or allow plain HTTP with insecure_http = true"
    try:
        done = subprocess.run(
            ["openssl", *arguments, *new_key], input=given, capture_output=True, text=True, timeout=_OPENSSL_S
        )
    except FileNotFoundError as error:
        raise ConfigError(
            f"the page makes its certificate by the program openssl: sudo apt install openssl; or {instead}"
        ) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"openssl made no certificate for the page: {error}; {instead}") from error
    if done.returncode and not may_fail:
        raise ConfigError(f"openssl made no certificate for the page: {done.stderr.strip()[-300:]}; {instead}")
    return "" if done.returncode else done.stdout


def _plain(name: str) -> str:
    return str(ipaddress.ip_address(name)) if is_address(name) else name.lower()
