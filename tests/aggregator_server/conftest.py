"""Fixtures of the aggregator's tests."""

import pytest

from aggregator_server.rounds.snapshot import read_open_round
from tests.support.core_fleet import CoreFleet
from tests.support.state_servers import located


@pytest.fixture
def fleet(tmp_path):
    """Four devices without HTTP, with a public set and no round yet."""
    fleet = CoreFleet(tmp_path / "data")
    yield fleet
    fleet.store.close()


@pytest.fixture
def snapshot(fleet):
    """A round of that fleet, with all uploads."""
    fleet.open()
    fleet.upload_all()
    with fleet.store.reading() as session:
        return read_open_round(session)


@pytest.fixture
def place(tmp_path):
    """Where the state of a data folder is."""
    return located(tmp_path / "data")
