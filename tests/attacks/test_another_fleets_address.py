"""One of a fleet's addresses leads to another fleet's server: it gets neither invitation, secret nor upload."""

import json

import pytest

from aggregator_server import tls
from edge_client.fleet.enrolment import client_of_member
from edge_client.fleet.joining import join
from edge_client.storage.device_state import DeviceState
from fleet_protocol.addresses import InvitationLink
from fleet_protocol.errors import CertificateError
from fleet_protocol.ready_bundles import find_bundle
from tests.support.aggregator_process import Aggregator
from tests.support.tls_server import TlsServer


@pytest.fixture
def other(tmp_path):
    """A server of another fleet, which would take in whatever it is sent."""
    with TlsServer(tmp_path / "other") as server:
        enrolled = json.dumps({"device_id": "1" * 32, "classes": [], "waiting": False}).encode()
        for path in ("/v1/devices", "/v1/devices/me", "/v1/rounds/1/update"):
            server.answer(path, enrolled)
        yield server


def test_the_device_joins_works_and_uploads_at_its_own_fleets_address_alone(tmp_path, other):
    config = tmp_path / "kitchen" / "edge.toml"
    config.parent.mkdir()
    config.write_text(f'[device]\nname = "kitchen"\nstate = "state"\n[model]\nbundle = "{find_bundle("cnn1")}"\n')
    state = DeviceState(config.parent / "state")
    with Aggregator(tmp_path / "own", "--tls", "auto").start() as own, own.client() as admin:
        token = admin.post("/v1/invitations", json={}).json()["token"]
        authority = (own.data / "tls" / "authority.pem").read_text().split("-----END PRIVATE KEY-----\n")[1]
        link = InvitationLink(other.url, token, tls.fingerprint(authority), (own.url,))
        other.answer("/v1/authority", json.dumps({"certificate": authority}).encode())
        join(config, link, insecure_http=False)  # whatever authority the other one shows
        assert other.asked == ["GET /v1/authority"]

        with pytest.raises(CertificateError, match="pinned"):
            client_of_member([other.url], state).check_enrolment()
        for ask in (
            lambda client: client.check_enrolment(),
            lambda client: client.work(0.0),
            lambda client: client.upload(1, b"what only the own fleet may have" * 10_000, lambda: None),
        ):
            client = client_of_member([other.url, own.url], state)
            if client.addresses.url != other.url:
                client.addresses.note_failure("as if it were gone")
            with pytest.raises(CertificateError, match="pinned"):
                ask(client)
            assert client.addresses.url == own.url
            client.check_enrolment()
            client.close()
        assert other.asked == ["GET /v1/authority"]
        for kept in (token, state.identity.load().secret, "what only the own fleet may have", "Authorization"):
            assert kept not in other.received
