"""What the tests of sinks share."""

import pytest

from tests.support.mqtt_broker import starting


@pytest.fixture
def start():
    with starting() as started:
        yield started
