"""The list of the fleet: searched, as a file; and what is done with several devices at once."""

import csv
import io
import re

import pytest

from tests.support.aggregator_process import ENROL, Aggregator, FakeDevice
from tests.support.dashboard_visitor import Visitor, sign_in

FORMULA = "=HYPERLINK(0)"
NAMES = ("cellar", "attic", FORMULA, "barn", "Attic two")


@pytest.fixture(scope="module")
def aggregator(tmp_path_factory):
    """Devices that wait to be admitted, two of them of a group."""
    process = Aggregator(tmp_path_factory.mktemp("fleet") / "data", "--approve").start()
    with process.client() as client:
        token = client.post("/v1/invitations", json={"devices": 90, "group": "school"}).json()["token"]
    for number, name in enumerate(NAMES, start=1):
        device = FakeDevice(number, ("c0",))
        with process.client(token if number < 3 else ENROL) as client:
            client.post(
                "/v1/devices", json=device.enrolment(name=name, clips=number, labels=[f"kettle {number}"])
            ).raise_for_status()
    yield process
    assert process.stop() == 0


def shown(page):
    return re.findall(r'<th scope="row"><a href="/fleet/[0-9a-f]+">([^<]+)</a>', page.text)


def identifier(number):
    return f"{number:032x}"


def audited(aggregator, what):
    with aggregator.client() as client:
        return [entry["details"]["device_id"] for entry in client.get("/v1/audit", params={"what": what}).json()]


def choose(admin, action, *numbers, **fields):
    return admin.post("/fleet", "/fleet", action=action, device=[identifier(n) for n in numbers], **fields)


def test_the_list_is_by_name_and_narrowed_by_a_word_and_a_state_together(admin):
    assert shown(admin.get("/fleet")) == [FORMULA, "attic", "Attic two", "barn", "cellar"]
    assert shown(admin.get("/fleet?search=TTIC")) == ["attic", "Attic two"]
    assert shown(admin.get("/fleet?search=two&state=online")) == ["Attic two"]
    for state in ("silent", "quarantine"):
        assert "No such device" in admin.get(f"/fleet?state={state}").text
    assert len(shown(admin.get("/fleet?state=waiting"))) == len(NAMES)


def test_what_an_address_asks_for_is_bounded(admin):
    assert len(admin.get("/fleet", params={"search": 5_000 * "x"}).text) < 20_000
    hostile = admin.get("/fleet", params={"search": '"><script>', "state": '"><script>', "after": '"><script>'})
    assert "No such device" in hostile.text
    assert "<script>" not in hostile.text


def test_the_list_is_a_file_that_no_spreadsheet_computes(admin):
    answer = admin.get("/fleet.csv?search=hyper")
    assert answer.headers["content-type"].startswith("text/csv")
    assert 'attachment; filename="fleet.csv"' in answer.headers["content-disposition"]
    (row,) = csv.DictReader(io.StringIO(answer.text))
    assert row["name"] == "'" + FORMULA
    everybody = admin.get("/fleet.csv").text
    assert [row["labels"] for row in csv.DictReader(io.StringIO(everybody))][1] == "kettle 2"
    assert not re.search(r"secret|hash", everybody)


def test_files_need_a_session(aggregator):
    stranger = Visitor(aggregator)
    assert stranger.get("/fleet.csv").status_code == 303
    stranger.close()


def test_chosen_devices_are_changed_once_that_is_confirmed(aggregator, admin):
    asked = choose(admin, "admit", 1, 2)
    assert asked.status_code == 200
    assert "with all of them or with none" in asked.text
    assert "attic" in asked.text
    assert audited(aggregator, "device_admitted") == []
    done = choose(admin, "admit", 1, 2, confirmed="yes")
    assert (done.status_code, done.headers["location"]) == (303, "/fleet?note=changed")
    assert sorted(audited(aggregator, "device_admitted")) == [identifier(1), identifier(2)]
    refused = choose(admin, "quarantine", 1, 2, confirmed="yes", reason="x" * 201)
    assert refused.status_code == 422
    assert "x" * 201 in refused.text  # the form keeps what was typed
    choose(admin, "quarantine", 1, 2, confirmed="yes", reason="they hum")
    assert sorted(shown(admin.get("/fleet?state=quarantine"))) == ["attic", "cellar"]
    choose(admin, "release", 1, 2, confirmed="yes")
    assert len(audited(aggregator, "device_released")) == 2


def test_a_change_that_is_refused_for_one_device_changes_none(aggregator, admin):
    choose(admin, "revoke", 5, confirmed="yes")
    before = audited(aggregator, "device_admitted")
    assert choose(admin, "admit", 3, 5, confirmed="yes").status_code == 403  # the fifth was revoked
    assert choose(admin, "admit", 3, 77, confirmed="yes").status_code == 404
    for action, numbers in (("admit", ()), ("explode", (3,)), ("admit", range(1, 102))):
        assert choose(admin, action, *numbers, confirmed="yes").status_code == 422
    assert audited(aggregator, "device_admitted") == before


def test_only_who_may_changes_chosen_devices(aggregator):
    with aggregator.client() as client:
        tokens = [
            client.post("/v1/tokens", json={"name": role, "role": role}).json()["token"]
            for role in ("viewer", "operator")
        ]
    viewer, operator = Visitor(aggregator), Visitor(aggregator)
    viewer.sign_in(tokens[0])
    operator.sign_in(tokens[1])
    assert 'type="checkbox"' not in viewer.get("/fleet").text
    assert choose(viewer, "admit", 3, confirmed="yes").status_code == 403
    assert choose(operator, "revoke", 3, confirmed="yes").status_code == 403
    viewer.close()
    operator.close()


def test_devices_are_ticked_and_put_aside_in_a_browser_without_scripts(browser, aggregator):
    context = browser.new_context(java_script_enabled=False)
    context.set_default_timeout(180_000)
    page = context.new_page()
    sign_in(page, aggregator.url)
    page.get_by_role("link", name="Fleet", exact=True).click()
    page.get_by_label("Choose barn").check()
    page.get_by_label("With the chosen devices").select_option("quarantine")
    page.get_by_role("button", name="Go on").click()
    page.get_by_label("Reason, for the next who looks").fill("it hums")
    page.get_by_role("button", name="Put in quarantine").click()
    page.get_by_text("The chosen devices were changed").wait_for()
    page.get_by_role("link", name="barn", exact=True).click()
    page.get_by_text("it hums").wait_for()
    context.close()
