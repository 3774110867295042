"""Fixtures that several test modules share: model bundles, built once and kept under build/."""

from pathlib import Path

import pytest

from tests.support.checkout import built, run_python

pytest_plugins = ["tests.support.fixtures_aggregator", "tests.support.sound_server"]

ARCHITECTURES = ("cnn1", "cnn2", "cnn3", "cnn4", "dscnn3", "ann3", "crnn_tiny", "crnn_lite")


@pytest.fixture(scope="session")
def bundles() -> dict[str, Path]:
    """One bundle of every small architecture: features `gudur`, capacity 32, batch 32, default options."""
    folder = built(
        "bundles",
        lambda folder: run_python("-m", "model_export.cli", "build", *ARCHITECTURES, "-o", str(folder)),
    )
    return {name: folder / f"{name}.auricle" for name in ARCHITECTURES}


@pytest.fixture(scope="session")
def embedding_bundles() -> Path:
    """A folder with bundles whose front end is an untrained network: see tests/support/embedding_bundles.py."""
    return built("embedding-bundles", lambda folder: run_python("-m", "tests.support.embedding_bundles", str(folder)))
