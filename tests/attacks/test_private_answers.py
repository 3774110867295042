"""Answers in private rounds that no honest device sends: each is refused with the reason, and harms nobody else."""

from dataclasses import replace

import numpy as np
import pytest

from fleet_protocol.limits import MESSAGE_BYTES
from tests.support.private_fleet import PrivateFleet, plain_means, private_devices

ZERO, OTHER = "0" * 64, "f" * 32


@pytest.fixture
def fleet(start_aggregator):
    return PrivateFleet(start_aggregator("server"), private_devices(5)).ready()


def until(fleet, stage):
    """Play until the first device has work of a stage; return that."""
    while (work := fleet.private_work(fleet.devices[0], wait_s=60)).kind != stage:
        for device in fleet.devices:
            work = fleet.private_work(device, wait_s=60)
            fleet.put(device, work, device.answer(work)).raise_for_status()
    return work


def refused(answer, status, code, said=""):
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["code"] == code
    assert said in answer.json()["error"]["message"]


def crafted_keys(good):
    yield good | {"mask_key": "00"}, 422, "malformed_update", "mask_key must be 64 lower-case hex digits"
    yield good | {"share_key": "G" * 64}, 422, "malformed_update", "share_key must be"
    yield good | {"signature": "0" * 128}, 422, "malformed_update", "not signed by it for this round"
    yield good | {"mask_key": ZERO}, 422, "malformed_update", ""
    yield {"mask_key": 5}, 422, "invalid_request", ""
    yield good | {"mask_key": "a" * MESSAGE_BYTES}, 413, "too_large", ""


def crafted_shares(good):
    some = next(iter(good["shares"]))
    fewer = {name: share for name, share in good["shares"].items() if name != some}
    yield good | {"roster": ZERO}, 422, "malformed_update", "not the digest of the device's group"
    yield good | {"commitment": "x"}, 422, "malformed_update", "commitment must be"
    yield good | {"shares": fewer}, 422, "malformed_update", f"{some!r} is missing"
    yield good | {"shares": good["shares"] | {OTHER: "0" * 160}}, 422, "malformed_update", "does not belong there"
    yield good | {"shares": good["shares"] | {some: "00"}}, 422, "malformed_update", "must be 160 lower-case hex digits"
    yield good | {"shares": {f"{n:032x}": "0" * 160 for n in range(20_000)}}, 413, "too_large", ""
    yield good | {"shares": {f"{n:032x}": "" for n in range(17_000)}}, 422, "invalid_request", "values"


def crafted_uploads(device, work):
    zeros = np.zeros(device.layout(work).length, np.uint32)
    yield device.masked_upload(work, zeros[:-1]), 422, "malformed_update", "has the array 'masked' alone"
    yield device.masked_upload(work, zeros.astype(np.float32)), 422, "malformed_update", "uint32"
    yield device.masked_upload(work, zeros, clips=3), 422, "malformed_update", "not 'clips'"
    yield device.masked_upload(work, zeros, metrics={"a": 1.0}), 422, "malformed_update", "not 'metrics'"
    yield device.masked_upload(work, zeros, known=()), 422, "malformed_update", "names all classes"
    yield device.masked_upload(work, zeros, device_id=OTHER), 422, "foreign_update", ""
    yield b"no safetensors", 422, "malformed_update", "cannot be read"


def crafted_reveals(good):
    some = next(iter(good["self_seeds"]))
    yield good | {"mask_keys": {some: ZERO}}, 422, "malformed_update", ""  # both secrets of one device
    yield good | {"self_seeds": good["self_seeds"] | {OTHER: ZERO}}, 422, "malformed_update", ""
    yield good | {"self_seeds": good["self_seeds"] | {some: "0"}}, 422, "malformed_update", "hex digits"


def test_crafted_answers_of_each_stage_are_refused_and_the_round_comes_to_its_sum(fleet):
    round_id = fleet.open_private(groups=4, aggregation={"centre": "mean"})
    liar = fleet.devices[0]
    for stage, crafted in (("keys", crafted_keys), ("shares", crafted_shares), ("unmask", crafted_reveals)):
        work = until(fleet, stage)
        for body, *expected in crafted(liar.answer(work)):
            refused(fleet.put(liar, work, body), *expected)
        if stage == "shares":
            early = replace(work, kind="unmask")
            refused(fleet.put(liar, early, {"self_seeds": {}, "mask_keys": {}}), 409, "stage_over", "takes no unmask")
            work = until(fleet, "contribute")
            for body, *expected in crafted_uploads(liar, work):
                refused(fleet.put(liar, work, body), *expected)
    for device in fleet.devices:
        work = fleet.private_work(device, wait_s=60)
        fleet.put(device, work, device.answer(work)).raise_for_status()
    assert fleet.private_work(liar, wait_s=60).kind == "learn"
    detail = fleet.round(round_id)
    assert [group["outcome"] for group in detail["private"]["groups"]] == ["5 of 5 devices"]
    assert set(detail["aggregation"]["devices"]) == set(plain_means(fleet.devices))


def test_who_is_not_in_the_round_and_who_is_nobody_is_refused_before_anything_is_kept(fleet):
    late = private_devices(1, 9)
    fleet.open_private(groups=4)
    work = until(fleet, "keys")
    fleet.aggregator.enrol(*late)
    fleet.clients[9] = fleet.aggregator.client(late[0].secret)
    refused(fleet.put(late[0], work, late[0].answer(work)), 403, "not_selected", "does not take part in round 1")
    fleet.clients[9] = fleet.aggregator.client("a secret that nobody has, of 32 characters")
    refused(fleet.put(late[0], work, late[0].answer(work)), 401, "unauthorised")
    refused(
        fleet.put(fleet.devices[0], replace(work, round_id=7), fleet.devices[0].answer(work)), 404, "round_not_found"
    )


@pytest.mark.slow
def test_wrong_shares_stop_their_own_group_alone_and_the_page_names_who_sent_them(start_aggregator):
    fleet = PrivateFleet(start_aggregator("server"), private_devices(8)).ready()
    round_id, liar = fleet.open_private(groups=4), fleet.devices[0]
    done = set()
    while len(done) < len(fleet.devices):
        for device in fleet.devices:
            work = fleet.private_work(device, wait_s=1)
            if work is None or work.kind == "learn":
                done |= set() if work is None else {device.number}
                continue
            answer = device.answer(work)
            if device is liar and work.kind == "shares":
                answer["commitment"] = ZERO
            fleet.put(device, work, answer).raise_for_status()
    detail = fleet.round(round_id)
    outcomes = {device_id: group["outcome"] for group in detail["private"]["groups"] for device_id in group["devices"]}
    assert f"shares of device {liar.device_id} are wrong" in outcomes[liar.device_id]
    assert list(outcomes.values()).count("4 of 4 devices") == 4
    assert set(detail["aggregation"]["screened"]) == {liar.device_id}
