"""An owner decides about the sounds that others of the fleet teach, by a command and on the page."""

import dataclasses
import json
import re

import httpx
import pytest

from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.messages.rest import ClassBacking, ClassInfo
from tests.support.edge_commands import EdgeCommands
from tests.support.owner_page import OwnerPage
from tests.support.round_work import work_of


@pytest.fixture
def edge(tmp_path, capsys):
    """A device whose fleet has three classes of others: two that one device sent, and one that three did."""
    device = EdgeCommands(tmp_path, capsys, find_bundle("base"))
    with device.config.open("a") as file:
        file.write('[microphone]\ndevice = ""\n')
    names = ("lights", "bell", "dog")
    work = dataclasses.replace(
        work_of("prototypes"),
        classes=tuple(ClassInfo(class_id=f"c{n}", name=name, discovered_in=1) for n, name in enumerate(names)),
        backing=tuple(ClassBacking(class_id=f"c{n}", devices=devices) for n, devices in enumerate((1, 1, 3))),
        devices_needed=2,
    )
    device.state.offers.follow(work)
    return device


def test_a_command_says_why_a_class_is_silent_and_takes_the_owners_word(edge):
    said = edge("offers")
    assert (
        "'lights' (c0): not listened for: 1 device was taught it, and 2 are needed; auricle-edge offers yes c0" in said
    )
    assert "'dog' (c2): listens" in said
    assert "lights is listened for, once it was tried" in edge("offers", "yes", "lights")
    assert "bell is not listened for" in edge("offers", "no", "c1")
    found = {one["name"]: one for one in json.loads(edge("offers", "--json"))}
    assert [found[name]["said"] for name in ("lights", "bell", "dog")] == [True, False, None]
    assert found["bell"]["why_silent"] == "you said no"
    assert "What the fleet says decides about bell again" in edge("offers", "undo", "bell")
    assert edge.state.offers.said() == {"c0": True}
    for sound in ("cat", "../c0", "c0\x1b[2J", "x" * 5000):
        refused = edge("offers", "yes", sound, status=1)
        assert "there is: lights (c0), bell (c1), dog (c2)" in refused
        assert "\x1b" not in refused
        assert len(refused) < 1000


def test_the_page_asks_about_a_class_and_takes_the_answer_back(edge):
    with OwnerPage(edge.config) as page, httpx.Client(base_url=page.url, timeout=180) as client:
        shown = client.get("/sounds").text
        token = re.search(r'csrf-token" content="(\w+)"', shown)[1]
        assert "1 device was taught it, and 2 are needed" in shown

        def post(**fields):
            return client.post("/sounds/offer", data=fields, headers={"Origin": page.url, "X-CSRF-Token": token})

        assert "lights is listened for" in post(sound="c0", says="yes").json()["message"]
        assert edge.state.offers.said() == {"c0": True}
        assert "you said yes to lights" in client.get("/sounds").text
        assert post(sound="c0", says="undo").status_code == 200
        assert edge.state.offers.said() == {}
        for fields in ({"sound": "c9", "says": "yes"}, {"sound": "c0", "says": "perhaps"}, {"says": "yes"}, {}):
            assert post(**fields).status_code == 409
        page.end()
