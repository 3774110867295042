"""What an operator does on the pages happens, once, by the rules of the interface for programs, and is in the audit."""

import re

import pytest

from tests.support.aggregator_process import Aggregator, FakeDevice, public_set
from tests.support.commands import command, failed, printed
from tests.support.core_fleet import CoreFleet
from tests.support.dashboard_visitor import Visitor


@pytest.fixture(scope="module")
def aggregator(tmp_path_factory):
    """A round is done that found two sounds; devices that join wait for an operator."""
    folder = tmp_path_factory.mktemp("actions") / "data"
    fleet = CoreFleet(folder)
    fleet.run_round()
    fleet.store.close()
    with Aggregator(folder, "--approve").start() as process:
        yield process
        assert process.stop() == 0


def done(response, path, what):
    assert response.status_code == 303, response.text
    assert response.headers["location"] == f"{path}?note={what}"


def answer(aggregator, path):
    with aggregator.client() as client:
        return client.get(path).json()


def states(aggregator):
    return {info["class_id"]: info["state"] for info in answer(aggregator, "/v1/class-history")}


def newest(aggregator):
    entry = answer(aggregator, "/v1/audit?limit=1")[0]
    return entry["what"], entry["who"]


def test_a_change_of_a_class_is_undone_right_after_it(aggregator, admin):
    def undo(after):
        page = admin.get(after.headers["location"]).text
        line = r'<div class="note" role="status">(.*?) <form[^>]* action="([^"]*)">(.*?)</form>'
        said, address, form = re.search(line, page, re.DOTALL).groups()
        assert "Undo" in form
        return said, lambda: admin.post(address, name=re.search(r'name="name" value="([^"]*)"', form)[1])

    before = answer(aggregator, "/v1/classes")
    renamed = admin.post("/classes/c2/rename", name="other")
    said, back = undo(renamed)
    assert said == "Renamed word 2 to other."
    done(back(), "/classes/c2", "renamed")
    assert answer(aggregator, "/v1/classes") == before
    said, back = undo(admin.post("/classes/c3/merge", into="c2"))
    assert said == "Merged word 3 into word 2."
    done(back(), "/classes/c3", "undone")
    assert "That was undone." in admin.get("/classes/c3?note=undone").text
    assert answer(aggregator, "/v1/classes") == before
    said, back = undo(admin.post("/classes/c1/retire"))
    assert said == "Retired word 1."
    admin.post("/classes/c3/retire")
    assert "Another class was changed since" in back().text
    done(admin.post("/rounds/1/restore"), f"/rounds/{len(answer(aggregator, '/v1/rounds'))}", "restored")
    assert back().status_code == 409  # that was undone already
    assert answer(aggregator, "/v1/classes") == before
    shown = admin.get("/classes/c2?note=retired").text
    assert 'role="status">The class is no longer one of the fleet&#39;s.</div>' in shown


def test_classes_are_merged_and_retired(aggregator, admin):
    done(admin.post("/classes/c3/merge", into="c2"), "/classes/c2", "merged")
    assert newest(aggregator) == ("class_merged", "administrator's token")
    done(admin.post("/classes/c1/retire"), "/classes/c1", "retired")
    assert (states(aggregator)["c3"], states(aggregator)["c1"]) == ("merged", "retired")


def test_the_fleet_goes_back_to_the_state_after_a_round(aggregator, admin):
    rounds = len(answer(aggregator, "/v1/rounds"))
    response = admin.post("/rounds/1/restore")
    done(response, f"/rounds/{rounds + 1}", "restored")
    assert newest(aggregator) == ("round_restored", "administrator's token")
    assert [states(aggregator)[name] for name in ("c1", "c3")] == ["active", "active"]
    page = admin.get(f"/rounds/{rounds}").text
    assert "This round does not count" in page
    assert "restore of round 1" in admin.get("/rounds").text


def test_a_round_is_opened_once_and_cancelled(aggregator, admin):
    refused = admin.post("/rounds", strategy="zero_shot")
    assert (refused.status_code, "no device was heard of in the last 120 s" in refused.text.lower()) == (409, True)
    heard, *away = (FakeDevice(number, ("c0",)) for number in (1, 2, 3, 4))
    aggregator.enrol(heard, token=heard.secret)
    assert "3 devices were not heard of for two minutes, and are left out: " in admin.get("/rounds/new").text
    opened = admin.post("/rounds", strategy="zero_shot")
    path = opened.headers["location"].partition("?")[0]
    done(opened, path, "started")
    done(admin.post(f"{path}/cancel"), path, "cancelled")
    shown = answer(aggregator, f"/v1{path}")
    assert (shown["summary"]["reason"], shown["summary"]["cancelled"]) == ("cancelled by administrator's token", True)
    assert [part["device_id"] for part in shown["participants"]] == [heard.device_id]
    assert {item["device_id"] for item in shown["left_out"]} == {device.device_id for device in away}
    page = admin.get(path).text
    assert all(f'<a href="/fleet/{device.device_id}">' in page for device in away)
    assert "This round was cancelled by administrator" in page
    for address in ("/", "/rounds", path):
        page = admin.get(address).text
        assert ">cancelled</span>" in page
        assert not re.search("round failed|>failed<", page), address


def test_devices_that_wait_are_admitted_together_and_a_round_says_that_they_wait(start_aggregator):
    server = start_aggregator("waiting", "--approve")
    here, devices = ("--data", server.data), [FakeDevice(number, ("c0",)) for number in range(21, 26)]
    with server.client() as client:
        client.put("/v1/public-set", content=public_set().pack()).raise_for_status()
    server.enrol(*devices)
    failed(command("round", "start", "zero_shot", *here), "5 wait to be admitted", "devices admit --all")
    failed(command("devices", "admit", *here), "name devices, or say --all")
    said = printed("devices", "admit", "device 21", "DEVICE 22", *here).splitlines()
    assert [line.partition(" (")[0] for line in said] == ["device 21", "device 22"]
    admin = Visitor(server)
    admin.sign_in()
    page = admin.get("/fleet").text
    assert "Admit all 3 of this page" in page
    ids = re.search(r'name="devices" value="([^"]*)"', page)[1]
    done(admin.post("/fleet/admit", devices=ids), "/fleet", "all-admitted")
    assert "waits to be admitted</span>" not in admin.get("/fleet").text
    failed(command("devices", "admit", "--all", *here), "no device waits")
    assert answer(server, "/v1/devices")[4]["waiting"] is False
    assert "round 1 is open" in printed("round", "start", "zero_shot", *here)


def test_a_form_that_is_sent_twice_makes_one_invitation(aggregator, admin):
    once = re.search(r'name="once" value="([^"]+)"', admin.get("/invitations").text)[1]
    before = len(answer(aggregator, "/v1/invitations"))
    first, second = (admin.post("/invitations", devices="1", hours="2", once=once).text for _ in range(2))
    links = [re.search(r"auricle-edge join (\S+)</code>", page)[1] for page in (first, second)]
    assert links[0] == links[1]
    assert len(answer(aggregator, "/v1/invitations")) == before + 1


def test_a_device_is_invited_admitted_put_aside_let_back_and_revoked(aggregator, admin):
    made = admin.post("/invitations", devices="1", hours="2", url="http://192.0.2.1:8470")
    link = re.search(r"auricle-edge join (\S+)</code>", made.text)[1]
    assert "192.0.2.1" in link
    assert "<svg" in made.text
    token = re.search(r"aur_join_[\w-]+", link)[0]
    device = FakeDevice(9, ("c0",))
    aggregator.enrol(device, token=token, name="attic")
    path = f"/fleet/{device.device_id}"
    assert "1 device waits" in admin.get("/").text
    done(admin.post(f"{path}/admit"), path, "admitted")
    aggregator.enrol(device, token=device.secret, name="attic", trouble="no recordings")
    assert "1 device</a> cannot contribute" in admin.get("/").text
    assert "It says: no recordings" in admin.get(path).text
    done(admin.post(f"{path}/quarantine", reason="it hums"), path, "quarantined")
    assert "it hums" in admin.get("/fleet").text
    assert newest(aggregator) == ("device_quarantined", "administrator's token")
    done(admin.post(f"{path}/release"), path, "released")
    done(admin.post(f"{path}/revoke"), path, "revoked")
    with aggregator.client(device.secret) as client:
        assert client.get("/v1/work").json()["error"]["code"] == "device_revoked"


def test_an_invitation_is_revoked_and_a_wrong_one_is_not_made(aggregator, admin):
    before = len(answer(aggregator, "/v1/invitations"))
    for wrong, words in (
        ({"devices": "0.5"}, "whole number"),
        ({"devices": "9999"}, "from 1 to 1000"),
        ({"url": "javascript:1"}, "must look like"),
    ):
        refused = admin.post("/invitations", **wrong)
        assert refused.status_code == 422
        assert words in refused.text
    assert len(answer(aggregator, "/v1/invitations")) == before
    admin.post("/invitations", devices="3", hours="")
    path = f"/invitations/{before + 1}/revoke"
    done(admin.post(path), "/invitations", "invitation-revoked")
    last = answer(aggregator, "/v1/invitations")[-1]
    assert (last["devices"], last["expires_at"]) == (3, None)
    assert last["revoked_at"] is not None


def test_the_audit_is_read_by_kind_and_page(aggregator, admin):
    for turn in range(55):
        admin.post("/classes/c0/rename", name=f"name {turn}")
    page = admin.get("/audit?what=class_renamed").text
    assert page.count("<tr><th scope") == 50
    older = re.search(r'href="(/audit\?what=class_renamed&amp;before=\d+)"', page)[1].replace("&amp;", "&")
    renamed = len(answer(aggregator, "/v1/audit?what=class_renamed&limit=1000"))
    assert admin.get(older).text.count("<tr><th scope") == renamed - 50 >= 5
    assert admin.get("/audit?what=nonsense").status_code == 200
