"""The page History, as its owner looks back, corrects, saves and deletes in Chromium."""

import time
from datetime import datetime, timedelta

import httpx
import numpy as np
import pytest

from edge_client.clips.unknown_clips import DetectedClips
from edge_client.config.sections import ClipsConfig
from edge_client.events.journal import COLUMNS
from edge_client.storage.database import FILE, Database
from tests.support.owner_page import OwnerPage
from tests.support.sounds import RATE, melody, write_clips

pytestmark = pytest.mark.slow
YESTERDAY = datetime.now().replace(hour=7, minute=30, second=0, microsecond=0) - timedelta(days=1)


@pytest.fixture(scope="module")
def device(tmp_path_factory):
    """A device that does not run; yesterday it heard a kettle every hour, whose newest sound is kept, and a <b>bell."""
    folder = tmp_path_factory.mktemp("history")
    (folder / "edge.toml").write_text(
        '[device]\nname = "shelf"\nstate = "state"\n[model]\nbundle = "base"\n[clips]\ndetected_count = 9\n'
    )
    write_clips(folder / "state" / "clips", "yes", 5, seed=1, name="kettle")
    rows = [
        ((YESTERDAY + timedelta(hours=number)).timestamp(), "kettle", 0.95 if number else 0.6, "kitchen")
        for number in range(5)
    ]
    rows.append(((YESTERDAY + timedelta(hours=9)).timestamp(), "<b>bell", 0.8, "hall"))
    database = Database(folder / "state" / FILE)
    with database.changing() as connection:
        connection.executemany(
            f"INSERT INTO events ({COLUMNS}) VALUES (?, 'detected', ?, NULL, ?, -30.0, NULL, ?, '')", rows
        )
    sound = np.asarray(melody("yes", np.random.default_rng(1)), np.float32)
    DetectedClips(folder / "state" / "detected", ClipsConfig(detected_count=9), RATE).add(rows[4][0], 0.95, sound)
    with OwnerPage(folder / "edge.toml") as page:
        page.folder, page.database = folder, database
        yield page
        page.end()


def test_he_looks_back_by_hour_filters_corrects_and_deletes(device, page):
    page.goto(f"{device.url}/history")
    day, events = YESTERDAY.strftime("%a %d %b"), page.locator(".event")
    page.get_by_role("heading", name=day).wait_for()
    assert events.count() == 6
    assert page.locator("main b").count() == 0  # a name is text
    page.get_by_role("link", name=f"1, {day}, 9 to 10 hours").click()
    page.get_by_role("heading", name="9 to 10 hours").wait_for()
    page.wait_for_load_state()
    assert events.count() == 1
    page.goto(f"{device.url}/history")
    assert events.filter(has_text="first time that day").count() == 2
    page.get_by_label("Sound", exact=True).select_option("kettle")
    page.get_by_label("Heard by").select_option("kitchen")
    page.get_by_label("Score").select_option("90")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**least=90*")
    assert events.count() == 4
    newest = events.first
    with page.expect_response("**/heard/detected/*.wav") as played:
        newest.locator("[data-play]").click()
    assert played.value.status in (200, 206)
    newest.locator("[data-play]").click()
    newest.get_by_role("button", name="Yes, kettle").click()
    page.locator("#told", has_text="Thank you.").wait_for()
    page.locator(".event", has_text="You said").wait_for()
    with page.expect_download() as saved:
        page.get_by_role("link", name="CSV").click()
    assert saved.value.path().read_text().count("\n") == 5
    page.get_by_role("button", name="Delete …").click()
    page.locator("#no:focus").wait_for()
    page.get_by_role("button", name="Delete them").click()
    page.locator(".empty", has_text="Nothing was heard then that you ask for").wait_for()
    assert device.database.rows("SELECT label FROM events") == [("<b>bell",)]
    assert not list((device.folder / "state" / "detected").iterdir())


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("from=2026-02-30", "is no day; write it like 2026-01-31"),
        ("from=0001-01-01", "is no day of this device"),
        ("from=2026-03-02&to=2026-03-01", "the first day, 2026-03-02, is after the last one, 2026-03-01"),
        ("hour=24", "an hour is 0 to 23"),
        ("least=-1", "is not a number"),
        ("kind=%3Cscript%3E", "is no kind of event"),
        ("day=" + "9" * 5000, "is no day; write it like"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_the_way_out(device, query, told):
    for address in ("history", "history.csv"):
        answer = httpx.get(f"{device.url}/{address}?{query}", timeout=180)
        assert answer.status_code == 409
        assert told in answer.json()["error"]
        assert len(answer.text) < 300


def test_the_longest_period_is_drawn_in_part_and_others_cannot_delete(device):
    text = httpx.get(f"{device.url}/history?from=2000-01-01", timeout=180).text
    assert "the newest 35 days" in text
    period = {"from": "2000-01-01", "to": time.strftime("%Y-%m-%d")}
    assert httpx.post(f"{device.url}/history/delete", data=period, timeout=180).status_code == 403
