"""What the front end `base` knows, for tests of what is learned on it."""

import pytest

from fleet_protocol.bundle import read_bundle
from fleet_protocol.ready_bundles import find_bundle


@pytest.fixture(scope="session")
def manifest():
    return read_bundle(find_bundle("base")).manifest


@pytest.fixture(scope="session")
def statistics(manifest):
    return manifest.embedding_statistics
