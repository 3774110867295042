"""A round's page in a browser follows the round to its end, without being loaded again."""

import pytest

from tests.support.aggregator_process import Aggregator, Fleet
from tests.support.core_fleet import CoreFleet, devices
from tests.support.dashboard_visitor import sign_in


@pytest.fixture(scope="module")
def aggregator(tmp_path_factory):
    """A fleet of three devices before its first round."""
    folder = tmp_path_factory.mktemp("live") / "data"
    CoreFleet(folder, devices(3)).store.close()
    process = Aggregator(folder).start()
    yield process
    assert process.stop() == 0


def watched(page, aggregator):
    """The page of a round that was just started; it is marked, and a page that is loaded again has no mark."""
    sign_in(page, aggregator.url)
    page.goto(f"{aggregator.url}/rounds/new")
    page.get_by_role("button", name="Start the round").click()
    page.get_by_text("0 of 3 devices are in").wait_for()
    page.evaluate("window.marked = true")


@pytest.mark.slow
def test_once_the_round_is_done_nothing_says_that_it_is_open(page, aggregator):
    watched(page, aggregator)
    fleet = Fleet(aggregator, devices(3))
    page.get_by_text("Cancel this round…").click()  # what is open stays open while devices come in
    for count, device in enumerate(fleet.devices, start=1):
        assert page.get_by_text("Closes at the latest").is_visible()
        assert page.get_by_role("button", name="Cancel round 1").is_visible()
        fleet.upload(device, fleet.contribution(device)).raise_for_status()
        if count < 3:
            page.get_by_text(f"{count} of 3 devices are in").wait_for()
    page.locator(".badge.good", has_text="done").wait_for()
    page.get_by_text("Closed", exact=True).wait_for()
    for gone in ("Cancel", "Closes at the latest", "is open"):
        assert page.get_by_text(gone).count() == 0, gone
    assert page.locator(".badge.live").count() == 0
    page.get_by_role("heading", name="New sounds").wait_for()
    page.get_by_text("Go back to the state after this round…").click()
    fleet.learned(fleet.devices[0], 1).raise_for_status()
    page.get_by_text("are in, 1 took the result").wait_for()  # the new content goes on following
    assert page.get_by_role("button", name="Restore round 1").is_visible()
    assert page.evaluate("window.marked")
