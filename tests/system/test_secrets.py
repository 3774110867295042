"""What a server writes, into its data folder and its log, holds no secret of anybody."""

import signal

import pytest

from tests.support.aggregator_process import ADMIN, ENROL, FakeDevice, public_set

pytestmark = pytest.mark.slow

FIRST, SECOND, WRONG = FakeDevice(1, ("c0", "c1")), FakeDevice(2, ("c0", "c1")), "wrong-token-of-the-tests"


def use_everything(server) -> set[str]:
    """Have people and devices do all that takes a secret, well and badly; return the secrets."""
    with server.client() as admin:
        admin.put("/v1/public-set", content=public_set().pack()).raise_for_status()
        person = admin.post("/v1/tokens", json={"name": "Anna", "role": "operator"}).json()["token"]
        invitation = admin.post("/v1/invitations", json={}).json()["token"]
        for token, device in ((ENROL, FIRST), (invitation, SECOND), (invitation, FakeDevice(3, ())), (WRONG, FIRST)):
            with server.client(token) as client:
                client.post("/v1/devices", json=device.enrolment())
                client.post("/v1/devices", json={"secret": device.secret})
        with server.client(FIRST.secret) as client:
            client.get("/v1/work")
        with server.client(person) as client:
            client.post("/v1/rounds", json={"strategy": "zero_shot"}).raise_for_status()
            client.post("/v1/tokens", json={"name": person, "role": "king"})
        for token in (WRONG, person, FIRST.secret):
            with server.client(token) as client:
                for _ in range(12):
                    client.delete("/v1/tokens/1")
        fail(server, admin)
        admin.delete(f"/v1/devices/{SECOND.device_id}")
        with server.client(SECOND.secret) as client:
            client.get("/v1/work")
    return {ADMIN, ENROL, FIRST.secret, SECOND.secret, WRONG, person, invitation}


def fail(server, admin) -> None:
    """Make the server meet what it did not foresee, and log it with its trace."""
    digest = admin.get("/v1/public-set").json()["sha256"]
    next((server.data / "blobs").rglob(digest)).unlink()
    with server.client(FIRST.secret) as client:
        assert client.get(f"/v1/blobs/{digest}").status_code == 500


def test_no_secret_is_written_anywhere(start_aggregator):
    server = start_aggregator()
    secrets = use_everything(server)
    output = server.process.stdout
    server.process.send_signal(signal.SIGTERM)
    printed = output.read()
    server.process.wait(180)
    log = (server.data / "server.log").read_text()
    assert "FileNotFoundError" in log
    written = {path.name: path.read_bytes() for path in server.data.rglob("*") if path.is_file()}
    assert {"auricle.db", "address.json", "server.log"} <= set(written)
    for secret in secrets:
        held = [name for name, content in {**written, "output": printed.encode()}.items() if secret.encode() in content]
        assert held == [], secret
