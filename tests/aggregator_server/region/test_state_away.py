"""A region whose own database or store is away for a moment takes part in the round all the same."""

import dataclasses
import threading

import pytest

from aggregator_server.errors import StateAwayError
from aggregator_server.fleet.region import read_region
from aggregator_server.region.loop import RegionLoop
from aggregator_server.store.location import Location
from tests.support.faulty_state import forwarded
from tests.support.hostile_upper import WORK, Hostile, region_of
from tests.support.regions import until
from tests.support.state_servers import BUCKET


class CuttingUpper(Hostile):
    """Cuts the region from its own state whenever it asks for an array, until that is over."""

    def __init__(self):
        self.cuts = lambda: None
        self.learned = threading.Event()
        super().__init__()

    def reply(self, connection, request):
        if request.split()[1].startswith("/v1/blobs/"):
            self.cuts()
        if request.split()[1].endswith("/learned"):
            self.work = dataclasses.replace(WORK, round_id=8)
            self.learned.set()
        super().reply(connection, request)


@pytest.fixture
def upper():
    with CuttingUpper() as made:
        yield made


@pytest.fixture(params=["database", "store"])
def cut_region(request, tmp_path, states, monkeypatch, upper):
    """A region and the link to the part of its state that goes away."""
    name, at = states.postgres.new(), states.postgres if request.param == "database" else states.s3
    with forwarded(at.port) as link:
        url, endpoint = states.postgres.url(name), states.s3.environment["AWS_ENDPOINT"]
        if request.param == "database":
            url = url.replace(f":{at.port}/", f":{link.port}/")
        else:
            endpoint = endpoint.replace(f":{at.port}", f":{link.port}")
        for key, value in (states.s3.environment | {"AWS_ENDPOINT": endpoint}).items():
            monkeypatch.setenv(key, value)
        fleet = region_of(Location(tmp_path / "region", url, f"s3://{BUCKET}/{name}"), upper)
        upper.cuts = lambda: link.cut(after=0)
        yield fleet, link
        link.mend()
        fleet.store.close()


def row(fleet):
    with fleet.store.reading() as session:
        return read_region(session)


@pytest.mark.parametrize("kind", ["contribute", "learn"])
def test_a_step_whose_own_state_goes_away_declines_nothing_and_is_done_again(upper, cut_region, kind):
    fleet, link = cut_region
    upper.work = dataclasses.replace(upper.work, kind=kind)
    loop = RegionLoop(fleet.store, lambda: None, poll_s=0.0)
    with pytest.raises(StateAwayError):
        loop.step()
    upper.cuts = lambda: None
    link.mend()
    found = row(fleet)
    assert (found.declined, found.trouble, found.part, found.adopted) == (None, None, None, None)
    assert not upper.learned.is_set()
    loop.step()
    found = row(fleet)
    assert (found.part if kind == "contribute" else found.adopted) is not None
    assert found.trouble is None


def test_the_loop_goes_on_by_itself_and_says_nothing_of_the_upper_server(upper, cut_region, caplog):
    fleet, link = cut_region
    loop = RegionLoop(fleet.store, lambda: None, poll_s=0.1)
    loop.start()
    try:
        until(lambda: "the step of the region is done again" in caplog.text, "a step that failed")
        upper.cuts = lambda: None
        link.mend()
        until(lambda: row(fleet).part is not None, "the region's part")
    finally:
        loop.close()
    assert (row(fleet).problem, row(fleet).declined) == (None, None)
    assert "the upper server:" not in caplog.text
