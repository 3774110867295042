"""Keeps the runtime's greeting from the terminal: the line that TensorFlow Lite's C++ side writes once a process.

The runtime's Python interface has no log level. What else reaches standard error meanwhile, from this process or any
other thread of it, is written there afterwards.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
from collections.abc import Iterator

_GREETING = b"INFO: Created TensorFlow Lite XNNPACK delegate for CPU.\n"
_lock = threading.Lock()
_heard = False


@contextlib.contextmanager
def without_greeting() -> Iterator[None]:
    """Leave the greeting out of what is written to descriptor 2; the first opening of a process alone writes it."""
    global _heard
    with _lock:
        if _heard:
            yield
            return
        try:
            terminal = os.dup(2)
        except OSError:  # a service without a standard error
            yield
            return
        try:
            with tempfile.TemporaryFile() as written:
                _flush()
                os.dup2(written.fileno(), 2)
                try:
                    yield
                finally:
                    _flush()
                    os.dup2(terminal, 2)
                    written.seek(0)
                    said = written.read()
                    _heard = _GREETING in said
                    os.write(terminal, said.replace(_GREETING, b""))
        finally:
            os.close(terminal)


def _flush() -> None:
    if sys.stderr is not None:
        sys.stderr.flush()
