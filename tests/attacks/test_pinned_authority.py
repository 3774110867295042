"""A server that is not the fleet's own gets neither invitation, secret nor upload.

Whoever is in between while a device joins shows a second authority beside the right one; or a fleet's address leads to
another fleet's server.
"""

import base64
import hashlib
import json
import ssl
from contextlib import closing
from datetime import UTC, datetime

import pytest

from aggregator_server import tls
from edge_client.fleet.enrolment import client_of_member
from edge_client.fleet.joining import join
from edge_client.storage.device_state import DeviceState
from fleet_protocol.client import certificates
from fleet_protocol.errors import CertificateError
from fleet_protocol.messages.invitation_link import InvitationLink
from tests.support.aggregator_process import Aggregator
from tests.support.edge_process import EdgeDaemon
from tests.support.tls_server import TlsServer

INVITATION = "aur_join_" + "i" * 43
# Two of three authorities have a number of bytes that base64 pads, where a lax reader stops.
AUTHORITIES = 40


@pytest.fixture(scope="module")
def between(tmp_path_factory):
    """Whoever is in between, with an authority and a certificate of his own; he answers as an aggregator does."""
    with TlsServer(tmp_path_factory.mktemp("between")) as server:
        server.answer("/v1/devices", json.dumps({"device_id": "1" * 32, "classes": [], "waiting": True}).encode())
        yield server


@pytest.fixture(scope="module")
def right(tmp_path_factory, between):
    """The authority of the aggregator that invited; a lax reader finds its SHA-256 in both together."""
    for _ in range(AUTHORITIES):
        made = tls.automatic(tmp_path_factory.mktemp("right"), [], datetime.now(UTC)).authority
        if lax_fingerprint(made + between.authority) == tls.fingerprint(made):
            return made
    raise AssertionError(f"none of {AUTHORITIES} authorities fools a lax reader")


def lax_fingerprint(text):
    try:
        return hashlib.sha256(der(text)).hexdigest()
    except ValueError:
        return None


@pytest.fixture
def config(tmp_path):
    return EdgeDaemon(tmp_path / "kitchen", "cnn1", "").config


def der(text):
    return ssl.PEM_cert_to_DER_cert(text)


def pem(*ders):
    """Put certificates into one PEM block."""
    text = base64.encodebytes(b"".join(ders)).decode()
    return f"-----BEGIN CERTIFICATE-----\n{text}-----END CERTIFICATE-----\n"


TEXTS = {
    "his own after it": lambda right, own: right + own,
    "his own before it": lambda right, own: own + right,
    "his own after it, as one that OpenSSL trusts for itself": lambda right, own: (
        right + own.replace("CERTIFICATE", "TRUSTED CERTIFICATE")
    ),
    "his own within the block": lambda right, own: pem(der(right), der(own)),
    "his own within the block, behind the padding": lambda right, own: right.replace(
        "\n-----END", "\n" + own.split("\n", 1)[1].split("-----END", maxsplit=1)[0] + "-----END"
    ),
    "words before it": lambda right, own: "his: " + right,
    "words after it": lambda right, own: right + "and so on",
    "a character that is no base64": lambda right, own: right.replace("\nMII", "\nM!II", 1),
    "a control character": lambda right, own: right.replace("\nMII", "\nM\0II", 1),
    "17 KiB of spaces": lambda right, own: right + " " * 17_000,
    "a byte behind the certificate": lambda right, own: pem(der(right), b"\0"),
    "no certificate": lambda right, own: pem(b"no certificate"),
    "an empty block": lambda right, own: pem(),
    "nothing": lambda right, own: "",
}


def invitation(between, right):
    return InvitationLink(between.url, INVITATION, tls.fingerprint(right))


def pretend(between, authority):
    """Have whoever is in between show an authority, and forget what he was asked."""
    between.answer("/v1/authority", json.dumps({"certificate": authority}).encode())
    between.asked.clear()
    between.received = ""


@pytest.mark.parametrize("what", TEXTS)
def test_whoever_is_in_between_gets_neither_the_invitation_nor_the_secret(between, right, config, what):
    pretend(between, TEXTS[what](right, between.authority))
    with pytest.raises(CertificateError, match="ask whoever invited you"):
        join(config, invitation(between, right), insecure_http=False)
    assert between.asked == ["GET /v1/authority"]
    assert "Authorization" not in between.received
    assert INVITATION not in between.received
    assert DeviceState(config.parent / "state").membership.load() is None


@pytest.mark.parametrize("what", TEXTS)
def test_what_was_pinned_is_one_authority_or_the_device_trusts_nobody(between, right, what):
    with pytest.raises(CertificateError, match="auricle-edge leave --forget"):
        certificates.trust(TEXTS[what](right, between.authority))


def test_a_servers_own_certificate_is_no_authority(between, tmp_path):
    made = tls.automatic(tmp_path, [], datetime.now(UTC))
    leaf = made.file.read_text()
    leaf = leaf[leaf.index("-----BEGIN CERTIFICATE") :]
    with pytest.raises(CertificateError, match="not one authority's certificate alone"):
        certificates.trust(leaf)
    certificates.trust(made.authority)
    certificates.trust("\r\n" + made.authority.replace("\n", "\r\n"))
    assert certificates.fingerprint(made.authority) == tls.fingerprint(made.authority)


@pytest.fixture
def other(tmp_path):
    """A server of another fleet, which would take in whatever it is sent."""
    with TlsServer(tmp_path / "other") as server:
        enrolled = json.dumps({"device_id": "1" * 32, "classes": [], "waiting": False}).encode()
        for path in ("/v1/devices", "/v1/devices/me", "/v1/rounds/1/update"):
            server.answer(path, enrolled)
        yield server


def test_a_device_speaks_to_its_own_fleets_server_alone(tmp_path, config, other):
    state = DeviceState(config.parent / "state")
    with Aggregator(tmp_path / "own", "--tls", "auto").start() as own, own.client() as admin:
        token = admin.post("/v1/invitations", json={}).json()["token"]
        authority = (own.data / "tls" / "authority.pem").read_text().split("-----END PRIVATE KEY-----\n")[1]
        join(config, InvitationLink(own.url, token, tls.fingerprint(authority)), insecure_http=False)
    for ask in (
        lambda client: client.check_enrolment(),
        lambda client: client.work(0.0),
        lambda client: client.upload(1, b"what only the own fleet may have" * 10_000, lambda: None),
    ):
        with closing(client_of_member(other.url, state)) as client, pytest.raises(CertificateError, match="pinned"):
            ask(client)
    assert other.asked == []
    for kept in (token, state.identity.load().secret, "what only the own fleet may have", "Authorization"):
        assert kept not in other.received
