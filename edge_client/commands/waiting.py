"""What commands show while they work, on a terminal alone, and ``--wait``: until the daemon has learned."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edge_client.owner import Teaching

_POLL_S = 0.5
# Until then the daemon has read the clips, and its status covers them.
_NOTICED_S = 5.0


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on a terminal while the body works; yield what it calls with how much is done, and of how much."""
    if not sys.stderr.isatty():
        yield lambda _done, _of: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)


def add_wait(parser: argparse.ArgumentParser) -> None:
    """Give a command the option."""
    parser.add_argument("--wait", action="store_true", help="end once the daemon has learned it")


def wait_until_learned(teaching: Teaching) -> None:
    """Wait until the daemon has learned from the clips that there are.

    Raises WorkError if it does not run, does not learn by itself, or could not learn from them.
    """
    from edge_client.clips.files import store_digest
    from edge_client.errors import WorkError

    if not teaching.learns_by_itself:
        raise WorkError("this device learns in rounds alone: there is nothing to wait for (docs/teaching.md)")
    wanted, began = store_digest(teaching.config.clips_folder), time.time()
    with shown("learning"):
        while wanted is not None and teaching.state.model.taught() != wanted:
            if not teaching.state.locked("daemon"):
                raise WorkError("the daemon does not run, so nothing learns from the clips: auricle-edge run")
            if error := _failure(teaching, began):
                raise WorkError(f"the daemon could not learn from the clips: {error}")
            time.sleep(_POLL_S)


def _failure(teaching: Teaching, began: float) -> str:
    """Return why the daemon gave up learning, or ""; what it said before is about other clips."""
    from edge_client.daemon.status import read_status

    status = read_status(teaching.state)
    if status.get("time", 0.0) < began + _NOTICED_S or status["teaching"]["waiting_to_be_learned"]:
        return ""
    return str(status["teaching"]["error"])


@contextmanager
def shown(what: str) -> Iterator[None]:
    """Show on a terminal that something is going on while the body works."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
