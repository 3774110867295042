"""Fixtures that several test modules share: model bundles, ready or built once and kept under build/."""

import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from fleet_protocol.bundle.ready_bundles import find_bundle
from tests.support.checkout import ROOT, built, run_python
from tests.support.light import needs

pytest_plugins = [
    "tests.support.state_servers",
    "tests.support.browser",
    "tests.support.fixtures_aggregator",
    "tests.support.sound_server",
]

# The same examples each time, however long one takes on a busy machine.
settings.register_profile("tests", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")

ARCHITECTURES = ("cnn1", "cnn2", "cnn3", "cnn4", "dscnn3", "ann3")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare which tests are run: see the Makefile."""
    parser.addoption("--part", choices=["light", "rest"], help="what `make test` runs, or all others")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files that import what '.[test]' does not install."""
    heavy = config.getoption("part") == "light" and collection_path.match("test_*.py") and needs(collection_path)
    return True if heavy else None


def pytest_configure() -> None:
    """Hear Ctrl-C, as do all programs that tests start: a shell's background job would have them ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose the part, and put modules with slow tests first: no worker is left with one when the others are done."""
    if part := config.getoption("part"):
        items[:] = [item for item in items if _is_light(item) == (part == "light")]
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


# What is built with TensorFlow, or needs a browser, a sound server, PostgreSQL.
_HEAVY_FIXTURES = frozenset({
    "browser", "embedding_bundles", "sound_server", "states",
})  # fmt: skip


def _is_light(item: pytest.Item) -> bool:
    """Return whether a test runs in seconds, or is a journey, on what '.[test]' installs, without a system package."""
    quick = item.get_closest_marker("slow") is None or item.get_closest_marker("journey") is not None
    heavy = needs(item.path) or item.path.is_relative_to(ROOT / "tests" / "model_export")
    heavy = heavy or item.get_closest_marker("scaled") is not None
    skipped = any(mark.args and mark.args[0] is True for mark in item.iter_markers("skipif"))
    fixtures = frozenset(getattr(item, "fixturenames", ()))
    return quick and not heavy and not skipped and not fixtures & _HEAVY_FIXTURES


@pytest.fixture(scope="session")
def bundles() -> dict[str, Path]:
    """The ready bundle of every published architecture: features `gudur`, capacity 32, batch 32, default options.

    tests/model_export/test_ready_bundles.py makes sure that they are what the sources build.
    """
    return {name: find_bundle(name) for name in ARCHITECTURES}


@pytest.fixture(scope="session")
def embedding_bundles() -> Path:
    """A folder with bundles whose front end is an untrained network: see tests/support/embedding_bundles.py."""
    return built("embedding-bundles", lambda folder: run_python("-m", "tests.support.embedding_bundles", str(folder)))


@pytest.fixture(scope="session")
def pretrained_bundle() -> Path:
    """The ready bundle with a linear head on the front end `base`, which carries the words of its pretraining."""
    return find_bundle("base")
