"""Programs of Auricle's own Python that import nothing from the current folder, which others may write."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_SAFE_PATH = "PYTHONSAFEPATH"


def python(module: str, *arguments: object) -> list[str]:
    """Return the command ``python -m module arguments``, which imports nothing from the current folder."""
    return [sys.executable, "-P", "-m", module, *map(str, arguments)]


@contextmanager
def safe_path() -> Iterator[None]:
    """Have programs that start meanwhile, as of ``multiprocessing``, import nothing from the current folder."""
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before
