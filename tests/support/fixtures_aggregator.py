"""Fixtures: ``start_aggregator(...)`` starts real server processes, and ends those that a test leaves running."""

import pytest

from tests.support.aggregator_process import Aggregator


@pytest.fixture
def start_aggregator(tmp_path):
    started = []

    def start(name="server", *options, **limits):
        aggregator = Aggregator(tmp_path / name, *options, **limits)
        started.append(aggregator)
        return aggregator.start()

    yield start
    for aggregator in started:
        if aggregator.process is not None and aggregator.process.poll() is None:
            aggregator.kill()


@pytest.fixture(scope="module")
def aggregator(tmp_path_factory):
    """One server for a module's tests that do not kill it."""
    process = Aggregator(tmp_path_factory.mktemp("aggregator")).start()
    yield process
    if process.process is not None:
        assert process.stop() == 0
