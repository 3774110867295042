"""Keeps from the terminal what TensorFlow's C++ side writes to standard error before and beside its log level."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator

from fleet_protocol.errors import AuricleError


@contextlib.contextmanager
def native_output_hidden() -> Iterator[None]:
    """Hide what this process writes to standard error; show it after all where an unexpected exception ends it."""
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as written:
        os.dup2(written.fileno(), 2)
        try:
            yield
        except AuricleError:
            raise
        except BaseException:
            written.seek(0)
            os.write(terminal, written.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(terminal, 2)
            os.close(terminal)
