"""Where the package of Google's speech embedding keeps its models; tests without it are skipped."""

from pathlib import Path

import pytest

from model_export.errors import ExportError
from model_export.speech_embedding.package import find_models


def models() -> Path:
    """Return the folder of the package's models; skip the test where the package is missing."""
    try:
        return find_models()
    except ExportError as error:
        pytest.skip(str(error))
