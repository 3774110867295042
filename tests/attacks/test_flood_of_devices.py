"""One enrolment token must not fill the fleet, and a device that was shut out must not come back."""

import asyncio
import time
from collections import Counter

import httpx

from tests.support.aggregator_process import ENROL, FakeDevice

FLOOD = 250  # more than four minutes admit, on a machine however slow


def flood(url: str, token: str) -> list[httpx.Response]:
    async def send() -> list[httpx.Response]:
        limits = httpx.Limits(max_connections=20)
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(
            base_url=url, headers=headers, limits=limits, timeout=180, trust_env=False
        ) as client:
            messages = [FakeDevice(1_000 + number, ()).enrolment() for number in range(FLOOD)]
            return list(await asyncio.gather(*(client.post("/v1/devices", json=message) for message in messages)))

    return asyncio.run(send())


def counted(answers: list[httpx.Response]) -> dict[int, int]:
    return Counter(answer.status_code for answer in answers)


def test_a_flood_by_the_enrolment_token_ends_at_its_quota(start_aggregator):
    server = start_aggregator()
    began = time.monotonic()
    answers = flood(server.url, ENROL)
    admitted = counted(answers)[200]
    minutes = 1 + (time.monotonic() - began) // 60
    assert 60 <= admitted <= 60 * minutes < FLOOD
    assert counted(answers) == {200: admitted, 429: FLOOD - admitted}
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert (refused.json()["error"]["code"], refused.headers["Retry-After"]) == ("too_many", "60")
    with server.client() as admin:
        assert len(admin.get("/v1/devices").json()) == admitted
        hit = admin.get("/v1/audit", params={"what": "limit_hit"}).json()
    assert {(entry["who"], entry["details"]["limit"]) for entry in hit} == {("enrolment token", "devices of a token")}
    assert len(hit) <= minutes


def test_a_flood_by_an_invitation_ends_at_its_number(start_aggregator):
    server = start_aggregator()
    with server.client() as admin:
        invitation = admin.post("/v1/invitations", json={"devices": 3}).json()["token"]
        assert counted(flood(server.url, invitation)) == {200: 3, 403: FLOOD - 3}
        assert len(admin.get("/v1/devices").json()) == 3


def test_a_revoked_device_does_not_come_back(start_aggregator):
    server, device = start_aggregator(), FakeDevice(1, ())
    with server.client() as admin:
        invitation = admin.post("/v1/invitations", json={}).json()["token"]
        with server.client(invitation) as client:
            assert client.post("/v1/devices", json=device.enrolment()).status_code == 200
        assert admin.delete(f"/v1/devices/{device.device_id}").status_code == 204
        again = {"its own secret": (device.secret, device), "its invitation": (invitation, device)}
        again |= {"its invitation, as another device": (invitation, FakeDevice(2, ()))}
        again |= {"the enrolment token": (ENROL, device)}
        for way, (token, comes) in again.items():
            with server.client(token) as client:
                assert client.post("/v1/devices", json=comes.enrolment()).status_code == 403, way
        active = [info for info in admin.get("/v1/devices").json() if info["revoked_at"] is None]
    assert active == []
