"""Programs of Auricle's own Python that import nothing from the current folder, which others may write."""

import ctypes
import os
import runpy
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_SAFE_PATH = "PYTHONSAFEPATH"
_SET_PARENT_DEATH_SIGNAL = 1  # of prctl(2)


def python(module: str, *arguments: object) -> list[str]:
    """Return the command ``python -m module arguments``, which imports nothing from the current folder."""
    return [sys.executable, "-P", "-m", module, *map(str, arguments)]


def python_of_parent(module: str, *arguments: object) -> list[str]:
    """Return :func:`python`'s command of a program that gets SIGTERM when who starts it ends, however that is."""
    return python(__name__, os.getpid(), module, *arguments)


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


def _end_with_parent(parent: int) -> None:
    """Have the kernel send SIGTERM when the parent ends; a program that replaces this one gets it too."""
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)
    if os.getppid() != parent:  # it ended before
        os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    _end_with_parent(int(sys.argv[1]))
    sys.argv = sys.argv[2:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
