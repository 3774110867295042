"""The HTTP interface of a real server on a real port: what it answers and refuses, and whether its schema is true."""

import dataclasses
import hashlib
import json
import re
import threading
import time

import pytest

from aggregator_server import errors
from aggregator_server.strategies.plans import complete
from fleet_protocol.bundle.feature_settings import PRESETS
from fleet_protocol.messages.public_set import PublicSet, unpack_consensus
from fleet_protocol.messages.rest import Choice, Enrolled, Receipt, Work, parse
from fleet_protocol.numbers.tensors import pack, unpack
from tests.support.aggregator_process import ADMIN, ENROL, FakeDevice, Fleet, public_set, read_answer, seen, tiny_bundle
from tests.support.checkout import ROOT
from tests.support.commands import command, failed, printed
from tests.support.core_fleet import devices
from tests.support.edge_process import wait_for

SETTINGS, OTHER = PRESETS["gudur"], PRESETS["kws40"]


@pytest.fixture(scope="module")
def fleet(aggregator):
    """Four devices; the tests of this module run one after the other on the same server."""
    return Fleet(aggregator, devices())


def refused(response, status, code, *words):
    assert response.status_code == status, response.text
    document = response.json()
    assert set(document) == {"error"}
    assert set(document["error"]) == {"code", "message"}
    assert document["error"]["code"] == code
    missing = [word for word in words if word not in document["error"]["message"]]
    assert not missing, (missing, document)


def test_before_anything_was_published_or_enrolled(fleet):
    health = fleet.admin.get("/v1/health").json()
    assert 0 < health.pop("free_bytes") <= health.pop("disk_bytes")
    assert len(health.pop("instance")) == 16
    assert health == {"status": "ok", "version": "0.1.0", "open_round": None}
    assert fleet.admin.get("/v1/health/alive").json() == {"status": "alive"}
    assert fleet.admin.get("/v1/health/ready").json() == {"status": "ready"}
    refused(fleet.admin.get("/v1/public-set"), 404, "public_set_not_found", "auricle-aggregator publish")
    refused(fleet.admin.post("/v1/rounds", json={"strategy": "zero_shot"}), 409, "no_public_set")
    refused(fleet.admin.get("/v1/model"), 404, "model_not_found", "auricle-aggregator publish-model")
    with fleet.aggregator.client(ENROL) as client:
        refused(client.get("/v1/model/bundle"), 404, "model_not_found")
    assert fleet.admin.get("/v1/rounds").json() == fleet.admin.get("/v1/devices").json() == []


def test_a_public_set_is_published_by_the_command(fleet, tmp_path):
    path = tmp_path / "public.safetensors"
    path.write_bytes(public_set().pack())
    publish = ("publish", path, "--url", fleet.aggregator.url)
    failed(command(*publish, token="nonsense"), "401")
    info = json.loads(printed(*publish))
    assert info == fleet.admin.get("/v1/public-set").json()
    assert (info["samples"], info["synthetic"], info["consensus"]) == (24, 0, None)
    assert info["features"] == SETTINGS.to_json()


def test_public_sets_that_cannot_be_used(fleet):
    def put(body):
        return fleet.admin.put("/v1/public-set", content=body)

    refused(put(b"nonsense"), 422, "malformed_public_set", "safetensors")
    refused(put(b""), 422, "malformed_public_set")
    twins = public_set()
    twins = dataclasses.replace(twins, classes=tuple(dataclasses.replace(c, name="same") for c in twins.classes))
    refused(put(twins.pack()), 422, "malformed_public_set", "'same'")
    nan = public_set()
    nan.features[3, 2, 1] = float("nan")
    refused(put(nan.pack()), 422, "malformed_public_set", "(3, 2, 1)")


def test_a_shared_model_is_published_by_the_command(fleet, tmp_path):
    refused(fleet.admin.post("/v1/rounds", json={"strategy": "fedavg"}), 409, "no_model", "publish-model")
    path = tmp_path / "tiny.auricle"
    path.write_bytes(tiny_bundle(capacity=6))
    info = json.loads(printed("publish-model", path, "--url", fleet.aggregator.url))
    assert info == fleet.admin.get("/v1/model").json()
    assert (info["version"], info["architecture"], info["capacity"], info["weights"]) == (1, "tiny", 6, None)
    assert fleet.admin.put("/v1/model", content=path.read_bytes()).json() == info  # again changes nothing
    with fleet.aggregator.client(ENROL) as client:  # as a device that has yet to enrol
        assert client.get("/v1/model/bundle").content == path.read_bytes()


def test_models_that_cannot_be_used(fleet):
    def put(body):
        return fleet.admin.put("/v1/model", content=body)

    refused(put(b"nonsense"), 422, "malformed_model", "auricle-export build")
    refused(put(tiny_bundle()[:-500]), 422, "malformed_model")
    refused(put(tiny_bundle(settings=OTHER)), 422, "feature_mismatch", SETTINGS.describe())
    refused(put(tiny_bundle(capacity=3)), 409, "model_too_small", "4 classes", "3 slots", "--capacity")
    refused(put(bytes(2**20) for _ in range(65)), 413, "too_large")


def test_enrolment(fleet):
    device = fleet.devices[0]
    with fleet.aggregator.client(ENROL) as client:
        first = client.post("/v1/devices", json=device.enrolment())
        again = client.post("/v1/devices", json=device.enrolment(name="renamed"))
        assert (first.status_code, again.status_code) == (200, 200)
        enrolled = parse(Enrolled, first.json())
        assert [info.class_id for info in enrolled.classes] == ["c0", "c1", "c2", "c3"]
        refused(client.post("/v1/devices", json=device.enrolment(secret="x" * 40)), 409, "device_taken")
        refused(client.post("/v1/devices", json=device.enrolment(device_id="e" * 32)), 409, "secret_taken")
        refused(client.post("/v1/devices", json=device.enrolment(device_id="E")), 422, "invalid_request", "32 lower")
        refused(client.post("/v1/devices", json={"name": "x"}), 422, "invalid_request", "device_id", "secret")
        refused(client.post("/v1/devices", content=b"{", headers=JSON), 422, "invalid_request", "JSON")
        refused(client.post("/v1/devices", content=b"[" * 100_000, headers=JSON), 422, "invalid_request")
        refused(client.post("/v1/devices", content=b"\xff\xfe", headers=JSON), 422, "invalid_request")
        foreign = client.post("/v1/devices", json=FakeDevice(50, (), settings=OTHER).enrolment())
        refused(foreign, 422, "feature_mismatch", SETTINGS.describe(), OTHER.describe())
    me = fleet.clients[1].get("/v1/devices/me").json()
    assert (me["name"], me["architecture"], me["revoked_at"]) == ("renamed", "cnn2", None)
    fleet.enrol()
    listed = fleet.admin.get("/v1/devices").json()
    assert [info["device_id"] for info in listed] == [device.device_id for device in fleet.devices]
    assert "secret" not in json.dumps(listed)


JSON = {"Content-Type": "application/json"}


def test_every_door_has_its_own_key(fleet):
    secret = fleet.devices[0].secret
    keys = dict.fromkeys(("devices", "rounds", "rounds/1", "audit", "tokens", "invitations"), (ADMIN,))
    keys |= dict.fromkeys(("devices/me", "work"), (secret,))
    keys |= dict.fromkeys(("classes", "public-set", "blobs/" + "0" * 64), (ADMIN, secret))
    for number, (path, opens) in enumerate(keys.items(), start=10):
        for token in (None, ENROL, "no-such-secret-" * 4, ADMIN, secret):
            with fleet.aggregator.client(token, address=f"127.0.0.{number}") as client:
                response = client.get(f"/v1/{path}")
            if token in opens:
                assert response.status_code != 401, (path, token)
            else:
                refused(response, 401, "unauthorised", "Bearer" if not token else "")
                assert response.headers["WWW-Authenticate"] == "Bearer"
    with fleet.aggregator.client(ADMIN) as client:
        refused(client.post("/v1/devices", json=fleet.devices[0].enrolment()), 401, "unauthorised", "enrolment token")
    with fleet.aggregator.client(secret, address="127.0.0.9") as client:
        for method, path in [("PUT", "/v1/public-set"), ("POST", "/v1/rounds"), ("DELETE", "/v1/rounds/1")]:
            refused(client.request(method, path), 401, "unauthorised")
        refused(client.patch("/v1/classes/c0", json={"name": "x"}), 401, "unauthorised")
        refused(client.delete(f"/v1/devices/{fleet.devices[0].device_id}"), 401, "unauthorised")


def test_json_that_was_not_sent_as_json_is_explained(fleet):
    body = json.dumps({"strategy": "zero_shot"}).encode()
    form = {"Content-Type": "application/x-www-form-urlencoded"}  # what curl -d says
    for headers in ({}, form):
        answer = fleet.admin.post("/v1/rounds", content=body, headers=headers)
        refused(answer, 422, "invalid_request", "application/json")
    wrong = fleet.admin.post("/v1/rounds", content=b'{"strategie": "x"}', headers=JSON)
    refused(wrong, 422, "invalid_request", "strategie")


def test_rounds_that_cannot_be_opened(fleet):
    def post(**request):
        return fleet.admin.post("/v1/rounds", json=request)

    refused(post(strategy="zero_shot", settings={"learning_rate": 10**400}), 422, "invalid_plan", "learning_rate")
    refused(post(strategy="zero_shot", seed=10**30), 422, "invalid_plan", "seed")
    misspelt = {"name": "uniform", "setings": {}}
    for part in ("aggregation", "selection", "personalisation"):
        refused(post(strategy="zero_shot", **{part: misspelt}), 422, "invalid_request", "setings")
    refused(fleet.admin.get("/v1/rounds/77"), 404, "round_not_found", "77")


def test_the_admin_learns_the_deadline_and_cancels(fleet):
    response = fleet.admin.post("/v1/rounds", json={"strategy": "zero_shot", "deadline_s": 3600})
    summary = response.json()
    assert (response.status_code, summary["state"], summary["selected"]) == (201, "open", 4)
    assert fleet.admin.get("/v1/health").json()["open_round"] == summary["round_id"]
    refused(fleet.admin.post("/v1/rounds", json={"strategy": "zero_shot"}), 409, "round_open", "round 1")
    refused(fleet.admin.put("/v1/public-set", content=public_set(30).pack()), 409, "round_open")
    cancelled = fleet.admin.delete("/v1/rounds/1").json()
    assert (cancelled["state"], cancelled["cancelled"], cancelled["reason"]) == (
        "failed",
        True,
        "cancelled by administrator's token",
    )
    assert [row["cancelled"] for row in fleet.admin.get("/v1/rounds").json()] == [True]
    counts = fleet.admin.get("/metrics").text
    assert 'auricle_rounds{state="failed"} 0.0' in counts
    assert 'auricle_rounds{state="cancelled"} 1.0' in counts
    refused(fleet.admin.delete("/v1/rounds/1"), 409, "round_closed")
    late = fleet.devices[0].upload({"round_id": 1, "public_set": "0" * 64}, 24)
    refused(fleet.clients[1].put("/v1/rounds/1/update", content=late), 409, "round_closed", "is cancelled")
    refused(fleet.learned(fleet.devices[0], 1), 409, "round_not_done", "is cancelled")
    refused(fleet.learned(fleet.devices[0], 70), 404, "round_not_found")


def test_devices_that_wait_are_woken_when_a_round_opens(fleet):
    answers = {}

    def ask(device):
        started = time.monotonic()
        answers[device.number] = (fleet.work(device, wait_s=60), time.monotonic() - started)

    threads = [threading.Thread(target=ask, args=(device,)) for device in fleet.devices]
    for thread in threads:
        thread.start()
    round_id = fleet.open_round()
    for thread in threads:
        thread.join()
    assert all(work["kind"] == "contribute" and work["round_id"] == round_id for work, _ in answers.values())
    assert max(seconds for _, seconds in answers.values()) < 60  # nobody waited for the end of the poll
    fleet.admin.delete(f"/v1/rounds/{round_id}")
    assert fleet.work(fleet.devices[0], wait_s=0) is None
    assert fleet.work(fleet.devices[0], wait_s=0.05) is None
    refused(fleet.clients[1].get("/v1/work", params={"wait_s": 61}), 422, "invalid_request", "wait_s")


def bad_uploads(device, work):
    good = device.arrays(work, 24)

    def packed(arrays=good, **changes):
        return pack(arrays, dataclasses.asdict(device.update(work, **changes)))

    return {
        "nothing": (b"", "malformed_update", ["0 bytes"]),
        "noise": (b"\x00" * 1000, "malformed_update", ["safetensors"]),
        "cut off": (packed()[:-100], "malformed_update", ["safetensors"]),
        "wrong types": (pack(good, {**dataclasses.asdict(device.update(work)), "classes": 5}), "malformed_update", []),
        "missing field": (pack(good, {"round_id": 1}), "malformed_update", ["device_id"]),
        "no scores": (packed({}), "malformed_update", ["'scores' is missing"]),
        "clips": (packed(clips=-1), "malformed_update", ["clips", "-1"]),
        "metrics": (packed(metrics={"a\n": 1.0}), "malformed_update", ["metric"]),
        "huge metric": (packed(metrics={"a": 10**400}), "malformed_update", ["digits"]),
        "another device": (packed(device_id="e" * 32), "foreign_update", ["e" * 32, device.device_id]),
        "another round": (packed(round_id=99), "foreign_update", ["99"]),
        "another public set": (packed(public_set="1" * 64), "wrong_public_set", ["1" * 64, work["public_set"]]),
        "other features": (packed(features=OTHER.digest), "feature_mismatch", [SETTINGS.describe(), OTHER.describe()]),
        "unknown features": (packed(features="beef"), "feature_mismatch", [SETTINGS.describe(), "'beef'"]),
    }


def test_uploads_that_are_refused_change_nothing(fleet):
    device = fleet.devices[0]
    fleet.open_round()
    work = fleet.work(device)
    parse(Work, work)
    before = fleet.round(work["round_id"])
    stored = sorted(path for path in (fleet.aggregator.data / "blobs").rglob("*"))
    for name, (body, code, words) in bad_uploads(device, work).items():
        response = fleet.upload(device, work, body)
        assert response.status_code == 422, (name, response.text)
        refused(response, 422, code, *words)
    good = device.upload(work, 24)
    client = fleet.clients[device.number]
    digest = {"X-Content-SHA256": "0" * 64}
    refused(client.put(f"/v1/rounds/{work['round_id']}/update", content=good, headers=digest), 422, "digest_mismatch")
    refused(client.put("/v1/rounds/99/update", content=good), 404, "round_not_found")
    assert fleet.round(work["round_id"]) == before
    assert sorted(path for path in (fleet.aggregator.data / "blobs").rglob("*")) == stored


def test_bodies_that_are_too_large_are_refused_however_they_come(fleet):
    client = fleet.clients[1]
    size = 64 * 2**20 + 1
    refused(client.put("/v1/rounds/3/update", content=bytes(size)), 413, "too_large", str(64 * 2**20))
    pieces = (bytes(2**20) for _ in range(65))  # chunked: no length is announced
    refused(client.put("/v1/rounds/3/update", content=pieces), 413, "too_large")
    large = {"round_id": 3, "metrics": {"x" * 2**20: 1.0}}
    refused(client.post("/v1/rounds/3/learned", json=large), 413, "too_large", str(2**20))
    with fleet.aggregator.client(ENROL) as enrolling:
        refused(enrolling.post("/v1/devices", json=fleet.devices[0].enrolment(name="x" * 2**21)), 413, "too_large")
    refused(fleet.admin.post("/v1/rounds", content=(b"x" * 2**20 for _ in range(3)), headers=JSON), 413, "too_large")


def test_a_body_that_only_says_that_it_is_too_large_is_refused_unread(fleet):
    with begin(fleet, "/v1/public-set", ADMIN, 2**40) as connection:
        status, _, body = read_answer(connection)
    assert (status, json.loads(body)["error"]["code"]) == (413, "too_large")


def begin(fleet, path, token, size):
    """Send the head of a request, and the first bytes of its body."""
    connection = fleet.aggregator.connect()
    head = f"PUT {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\nContent-Length: {size}\r\n\r\n"
    connection.sendall(head.encode() + b"x" * 1000)
    return connection


def test_a_client_that_hangs_up_while_sending_leaves_nothing(fleet):
    begin(fleet, "/v1/rounds/3/update", fleet.devices[0].secret, 100_000).close()
    incoming = fleet.aggregator.data / "blobs" / "incoming"
    wait_for(lambda: not list(incoming.iterdir()), what="the end of the upload")
    assert fleet.admin.get("/v1/health").status_code == 200


def test_a_whole_round(fleet):
    round_id, receipts = 3, {}
    for device in fleet.devices:
        work = fleet.work(device)
        body = device.upload(work, 24)
        headers = {"X-Content-SHA256": hashlib.sha256(body).hexdigest().upper()}
        response = fleet.clients[device.number].put(f"/v1/rounds/{round_id}/update", content=body, headers=headers)
        receipts[device.device_id] = parse(Receipt, response.json())
        assert receipts[device.device_id] == Receipt(round_id, hashlib.sha256(body).hexdigest(), False)
        assert parse(Receipt, fleet.upload(device, work, body).json()).repeated
        other = device.upload(work, 24, clips=7)
        refused(fleet.upload(device, work, other), 409, "duplicate_update", receipts[device.device_id].sha256)
    for device, class_id in zip(fleet.devices, ["c4", "c4", "c5", None], strict=True):
        work = parse(Work, fleet.work(device))
        assert (work.kind, work.round_id) == ("learn", round_id)
        assert [(a.slot, a.class_id) for a in work.assignments] == ([(2, class_id)] if class_id else [])
        grown = PublicSet.unpack(fleet.clients[device.number].get(f"/v1/blobs/{work.public_set}").content)
        scores, class_ids = unpack_consensus(fleet.clients[device.number].get(f"/v1/blobs/{work.consensus}").content)
        assert scores.shape == (len(grown.labels), 6)
        assert class_ids == tuple(info.class_id for info in work.classes) == grown.class_ids
        for _ in range(2):
            assert fleet.learned(device, round_id).status_code == 204
        assert fleet.work(device, wait_s=0) is None
    check_round(fleet.round(round_id), fleet, receipts)


def check_round(detail, fleet, receipts):
    assert detail["summary"]["state"] == "done"
    assert (detail["summary"]["selected"], detail["summary"]["uploaded"]) == (4, 4)
    assert detail["plan"]["local"]["settings"] == complete("local", Choice("zero_shot")).settings
    for number, shown in zip((1, 2, 3, 4), detail["participants"], strict=True):
        assert shown["upload"] == receipts[shown["device_id"]].sha256
        assert shown["clips"] == 40 + number
        assert shown["metrics"] == {"local_accuracy": 0.5 + number / 100}
        assert (shown["learned"], shown["learned_metrics"]) == (True, {"global_accuracy": 0.75})
    assert set(detail["betas"]) == {"c0", "c1", "c2", "c3"}
    assert [group["class_id"] for group in detail["discovery"]["groups"]] == ["c4", "c5"]
    assert len(detail["discovery"]["details"]["similarity"]) == 3


def test_devices_fetch_public_sets_and_consensus_but_nobodys_upload(fleet):
    detail = fleet.round(3)
    client = fleet.clients[1]
    blob = client.get(f"/v1/blobs/{detail['result_consensus']}")
    assert hashlib.sha256(blob.content).hexdigest() == detail["result_consensus"]
    assert unpack(blob.content)[1] == {"classes": ["c0", "c1", "c2", "c3", "c4", "c5"]}
    refused(client.get(f"/v1/blobs/{detail['participants'][1]['upload']}"), 404, "blob_not_found")
    refused(fleet.admin.get(f"/v1/blobs/{detail['participants'][1]['upload']}"), 404, "blob_not_found")
    refused(client.get("/v1/blobs/" + "0" * 64), 404, "blob_not_found")
    refused(client.get("/v1/blobs/tokens.json"), 422, "invalid_request", "sha256")
    refused(client.get("/v1/blobs/..%2F..%2Ftokens.json"), 404, "not_found")


def test_the_public_set_stays_once_there_is_a_consensus(fleet):
    refused(fleet.admin.put("/v1/public-set", content=public_set(36).pack()), 409, "public_set_in_use", "data folder")


def test_tokens_of_people_are_made_listed_and_revoked(fleet):
    made = fleet.admin.post("/v1/tokens", json={"name": "Anna", "role": "viewer", "expires_s": 3600})
    assert made.status_code == 201
    token, info = made.json()["token"], made.json()["info"]
    assert fleet.admin.get("/v1/tokens").json() == [info]
    assert token not in fleet.admin.get("/v1/audit").text
    with fleet.aggregator.client(token) as anna:
        assert anna.get("/v1/rounds").status_code == 200
        refused(anna.post("/v1/rounds", json={}), 403, "role_too_low", "Anna", "viewer", "operator")
        assert fleet.admin.delete(f"/v1/tokens/{info['token_id']}").status_code == 204
        refused(anna.get("/v1/rounds"), 401, "unauthorised", "Anna", "revoked")
    refused(fleet.admin.delete("/v1/tokens/77"), 404, "token_not_found", "77")
    refused(fleet.admin.post("/v1/tokens", json={"name": "B", "role": "king"}), 422, "invalid_request", "role")


def test_an_invitation_lets_one_device_in(fleet):
    made = fleet.admin.post("/v1/invitations", json={"group": "kitchen"}).json()
    number = made["info"]["invitation_id"]
    device, other = FakeDevice(70, ("c0",)), FakeDevice(71, ("c0",))
    with fleet.aggregator.client(made["token"]) as client:
        for _ in range(2):  # the second time its answer may have been lost
            assert client.post("/v1/devices", json=device.enrolment()).status_code == 200
        refused(client.post("/v1/devices", json=other.enrolment()), 403, "invitation_spent", "1 device already")
        refused(client.get("/v1/model/bundle"), 403, "invitation_spent", "1 device already")
    listed = fleet.admin.get("/v1/invitations").json()
    assert [(info["invitation_id"], info["devices"], info["used"]) for info in listed] == [(number, 1, 1)]
    with fleet.aggregator.client(device.secret) as client:
        me = client.get("/v1/devices/me").json()
        assert (me["group"], me["invitation"], me["waiting"]) == ("kitchen", number, False)
    assert fleet.admin.delete(f"/v1/invitations/{number}").status_code == 204
    refused(fleet.admin.delete("/v1/invitations/77"), 404, "invitation_not_found", "77")
    refused(fleet.admin.post("/v1/invitations", json={"devices": 0}), 422, "invalid_request", "devices", "1000")


def test_a_device_enrols_again_by_its_own_secret_and_leaves(fleet):
    device = FakeDevice(72, ("c0",))
    fleet.aggregator.enrol(device)
    with fleet.aggregator.client(device.secret) as client:
        assert client.post("/v1/devices", json=device.enrolment()).status_code == 200
        newcomer = FakeDevice(73, ()).enrolment()
        refused(client.post("/v1/devices", json=newcomer), 401, "unauthorised", "invitation")
        assert client.delete("/v1/devices/me").status_code == 204
        refused(client.get("/v1/work"), 403, "device_revoked", "left")
    refused(fleet.admin.post(f"/v1/devices/{device.device_id}/admit"), 403, "device_revoked")
    refused(fleet.admin.post("/v1/devices/kitchen/admit"), 422, "invalid_request", "device_id")


def test_new_devices_wait_where_an_operator_admits_them(start_aggregator):
    fleet = Fleet(start_aggregator("approving", "--approve"), devices(2))
    fleet.enrol()
    foreign = FakeDevice(80, (), settings=OTHER)
    with fleet.aggregator.client(ENROL) as client:
        assert client.post("/v1/devices", json=foreign.enrolment()).json()["waiting"]
    assert fleet.publish().status_code == 200  # who waits does not stand in the way
    first, second = fleet.devices
    for path in ("/v1/work", "/v1/classes", "/v1/public-set"):
        refused(fleet.clients[first.number].get(path), 403, "device_waiting", first.device_id, "devices admit")
    assert fleet.clients[first.number].get("/v1/devices/me").json()["waiting"]
    refused(fleet.admin.post("/v1/rounds", json={"strategy": "zero_shot"}), 409, "no_devices")
    for _ in range(2):
        assert fleet.admin.post(f"/v1/devices/{first.device_id}/admit").status_code == 200
    other = public_set(settings=PRESETS["hello_edge"])
    refused(fleet.admin.put("/v1/public-set", content=other.pack()), 409, "fleet_features", "device 1", "hello_edge")
    refused(fleet.admin.post(f"/v1/devices/{foreign.device_id}/admit"), 422, "feature_mismatch", "kws40")
    assert fleet.clients[first.number].get("/v1/work").status_code == 204
    round_id = fleet.open_round()
    assert [found["device_id"] for found in fleet.round(round_id)["participants"]] == [first.device_id]
    assert fleet.clients[second.number].delete("/v1/devices/me").status_code == 204  # it need not wait to leave


def test_a_revoked_device_that_waits_is_told_at_once_and_shut_out(fleet):
    device = FakeDevice(61, ("c0",))
    fleet.aggregator.enrol(device)
    answers = []
    with fleet.aggregator.client(device.secret) as client:
        assert client.post("/v1/rounds/3/learned", json={"round_id": 3}).status_code == 204
        waiting = threading.Thread(target=lambda: answers.append(client.get("/v1/work", params={"wait_s": 60})))
        waiting.start()
        time.sleep(0.3)
        fleet.admin.delete(f"/v1/devices/{device.device_id}")
        waiting.join(50)  # it would have waited for 60 s
        assert not waiting.is_alive()
        refused(answers[0], 403, "device_revoked")
        for path in ("/v1/devices/me", "/v1/work", "/v1/public-set", "/v1/blobs/" + "0" * 64, "/v1/classes"):
            refused(client.get(path), 403, "device_revoked", device.device_id)
        refused(client.put("/v1/rounds/3/update", content=b"x"), 403, "device_revoked")


def schema_of(fleet):
    return fleet.admin.get("/openapi.json").json()


def test_operators_change_classes_and_restore_rounds(fleet):
    """tests/attacks/test_hostile_uploads.py says what becomes of them."""
    admin = fleet.admin
    opened = fleet.open_round()
    refused(admin.delete("/v1/classes/c5"), 409, "round_open", f"round {opened}", "DELETE")
    refused(admin.post("/v1/rounds/3/restore"), 409, "round_open")
    admin.delete(f"/v1/rounds/{opened}").raise_for_status()
    for nonsense in ({}, {"merge_into": "c5"}, {"merge_into": "c4", "name": "x"}):
        refused(admin.patch("/v1/classes/c5", json=nonsense), 422, "invalid_request")
    changed = admin.patch("/v1/classes/c5", json={"merge_into": "c4"}).json()
    assert (changed["state"], changed["merged_into"]) == ("merged", "c4")
    for class_id in ("c0", "c1", "c2"):
        assert admin.delete(f"/v1/classes/{class_id}").json()["state"] == "retired"
    refused(admin.delete("/v1/classes/c3"), 409, "last_class", "recording")
    states = [(item["class_id"], item["state"]) for item in admin.get("/v1/class-history").json()]
    assert states[:2] == [("c3", "active"), ("c4", "active")]
    assert states[2:] == [("c0", "retired"), ("c1", "retired"), ("c2", "retired"), ("c5", "merged")]
    refused(admin.post("/v1/rounds/1/restore"), 409, "round_not_done", "is cancelled")
    restored = admin.post("/v1/rounds/3/restore")
    assert restored.status_code == 201
    assert (restored.json()["operation"], restored.json()["restores"]) == ("restore", 3)
    assert [info["class_id"] for info in admin.get("/v1/classes").json()] == [f"c{number}" for number in range(6)]


def test_an_address_with_the_character_nul_is_refused_in_one_way(fleet):
    for method, address in (("DELETE", "/v1/classes/a%00b"), ("GET", "/v1/devices?search=a%00b"), ("GET", "/%00")):
        answer = fleet.admin.request(method, address)
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_request")
        assert "NUL" in answer.json()["error"]["message"]


def test_the_schema_documents_every_address_completely(fleet):
    schema = schema_of(fleet)
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            where = f"{method} {path}"
            assert operation["summary"], where
            assert operation["description"], where
            open_to_all = path.startswith("/v1/health") or path == "/v1/authority"
            assert bool(operation.get("security")) == (not open_to_all), where
            success = [status for status in operation["responses"] if status.startswith("2")]
            assert success, where
            assert all(response["description"] for response in operation["responses"].values()), where
            for status, response in operation["responses"].items():
                if not status.startswith("2"):
                    error = response["content"]["application/json"]["schema"]
                    assert error == {"$ref": "#/components/schemas/ErrorReply"}, where
                elif status != "204":
                    assert all(item["schema"] for item in response["content"].values()), where
    assert not {"HTTPValidationError", "ValidationError"} & set(schema["components"]["schemas"])


def test_what_the_tests_saw_is_what_the_schema_says(fleet):
    """Runs after the tests above, which provoke most errors."""
    schema = schema_of(fleet)
    patterns = {
        path: re.compile(re.sub(r"\{\w+\}", "[^/]+", path) + "$")
        for path in sorted(schema["paths"], key=lambda path: "{" in path)
    }
    documented, met = set(), set()
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            for status, response in operation["responses"].items():
                codes = re.findall(r"`(\w+)`:", response["description"]) if status >= "4" else [None]
                documented |= {(method.upper(), path, int(status), code) for code in codes}
    for method, path, status, code in seen():
        route = next((route for route, pattern in patterns.items() if pattern.match(path)), None)
        if path in ("/openapi.json", "/metrics"):
            continue
        if route is None:
            wanted = (422, "invalid_request") if "\0" in path else (404, "not_found")
            assert (status, code) == wanted, path
        elif status == 405:
            assert method.lower() not in schema["paths"][route]
        else:
            met.add((method, route, status, code))
    assert met - documented == set()


def test_the_schema_says_what_every_code_means(fleet):
    schema = schema_of(fleet)
    described = [schema["info"]["description"]]
    for methods in schema["paths"].values():
        described += [response["description"] for one in methods.values() for response in one["responses"].values()]
    text = " ".join(described)
    assert [code for code, (_, meaning) in errors.CODES.items() if f"`{code}`: {meaning}" not in text] == []


def test_the_protocol_document_names_every_address_and_every_error(fleet):
    text = (ROOT / "docs" / "protocol.md").read_text()
    for path, methods in schema_of(fleet)["paths"].items():
        for method in methods:
            assert f"`{method.upper()} {path}`" in text, f"{method} {path}"
    assert errors.CODES.keys() >= {code for *_, code in seen() if code}
    table = {code: int(status) for code, status in re.findall(r"^\| `(\w+)` \| (\d{3}) \|", text, re.MULTILINE)}
    assert table == {code: status for code, (status, _) in errors.CODES.items()}


def test_an_unforeseen_failure_has_the_same_shape_and_tells_no_secrets(fleet):
    digest = fleet.admin.get("/v1/public-set").json()["sha256"]
    next((fleet.aggregator.data / "blobs").rglob(digest)).unlink()
    response = fleet.admin.get(f"/v1/blobs/{digest}")
    refused(response, 500, "internal_error", "log")
    assert str(fleet.aggregator.data) not in response.text
    assert fleet.admin.get("/v1/health").status_code == 200
