"""The page's list of questions is read where a file changed, and else is what it was."""

import pytest

from edge_client.config import load_config
from edge_client.owner import Teaching
from edge_client.owner_page.asking import AskingPage
from edge_client.owner_page.device import OwnedDevice
from edge_client.owner_page.pages import Pages
from edge_client.questions.answers import answer
from tests.support.asked_device import ask, sound, taught


@pytest.fixture
def device(tmp_path):
    return taught(tmp_path)


@pytest.fixture
def page(device):
    config = device.folder / "edge.toml"
    return AskingPage(OwnedDevice(config, load_config(config)), Pages("shelf", ""))


def asked(page):
    return [one["id"] for one in page.shown()["questions"]]


def test_questions_answers_and_new_labels_are_seen_at_once(device, page):
    config = device.folder / "edge.toml"
    assert (asked(page), page.shown()["known"]) == ([], ["bell", "kettle"])
    one, other = ask(config), ask(config, window=sound("down"))
    assert asked(page) == [other.question_id, one.question_id]
    answer(Teaching.open(config), one.question_id, "was", "cup")
    assert (asked(page), page.shown()["known"]) == ([other.question_id], ["bell", "cup", "kettle"])
    (device.clips / "cup").rename(device.clips / "mug")
    assert page.shown()["known"] == ["bell", "kettle", "mug"]
