"""Fixtures of the dashboard's tests."""

import pytest

from tests.support.aggregator_process import Aggregator
from tests.support.dashboard_visitor import Visitor
from tests.support.pictured_fleet import fleet_folder


@pytest.fixture(scope="module")
def aggregator(tmp_path_factory):
    """A server of the fleet of the pictures, for tests that do not stop it."""
    folder = tmp_path_factory.mktemp("pages") / "data"
    fleet_folder(folder)
    with Aggregator(folder).start() as process:
        yield process
        assert process.stop() == 0


@pytest.fixture(autouse=True)
def lasting_links(monkeypatch):
    """On a busy machine a browser may not come within the minute in which a link signs in."""
    monkeypatch.setattr("aggregator_server.fleet.sessions.SIGN_IN_LINK_S", 3600.0)


@pytest.fixture
def visitor(aggregator):
    """Somebody who is not signed in."""
    return Visitor(aggregator)


@pytest.fixture
def admin(visitor):
    """The same person, signed in as administrator."""
    assert visitor.sign_in().status_code == 303
    return visitor
