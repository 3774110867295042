"""Fixtures of the aggregator's tests."""

import pytest

from tests.support.core_fleet import CoreFleet


@pytest.fixture
def fleet(tmp_path):
    """Four devices without HTTP, with a public set and no round yet."""
    fleet = CoreFleet(tmp_path / "data")
    yield fleet
    fleet.store.close()
