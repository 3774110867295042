"""Fixtures that start real servers, alone or with whole devices, and end what a test leaves running."""

from contextlib import ExitStack

import pytest

from tests.support.aggregator_process import Aggregator
from tests.support.device_fleet import device_fleet


@pytest.fixture
def start_aggregator(tmp_path):
    with ExitStack() as running:

        def start(name="server", *options, **limits):
            return running.enter_context(Aggregator(tmp_path / name, *options, **limits)).start()

        yield start


@pytest.fixture(scope="module")
def aggregator(tmp_path_factory):
    """One server for a module's tests that do not kill it."""
    with Aggregator(tmp_path_factory.mktemp("aggregator")).start() as process:
        yield process
        assert process.stop() == 0


@pytest.fixture
def fleet_of(tmp_path, start_aggregator):
    """(bundles by name, options of device_fleet) -> an aggregator, and a function that makes devices."""
    with ExitStack() as running:
        enter = running.enter_context

        def start():  # most fleets here are a few devices that learn from one another
            return start_aggregator("server", "--devices-needed", "1")

        yield lambda bundles, **options: enter(device_fleet(tmp_path, bundles, start, **options))
