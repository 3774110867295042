"""Programs that a command runs beside itself and that end with it, as ``try`` does on both sides; and its page."""

import os
import signal
import subprocess
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

from fleet_protocol.errors import AuricleError
from fleet_protocol.ground.own_python import python_of_parent

_GRACE_S = 20.0
_LOOK_S = 0.1
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class ChildError(AuricleError):
    """A program that was to run on ended."""


class Children:
    """Programs of Auricle, each with a log of its standard error in a folder; see :func:`children`."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._running: dict[str, subprocess.Popen[str]] = {}

    def start(self, name: str, module: str, *arguments: object, tell: Callable[[str], object], given: str = "") -> None:
        """Start ``python -m module arguments``; ``name`` is for people, and of its log.

        ``tell`` is called with each line of its standard output, in a thread of its own. ``given`` is its standard
        input: what other users of the machine are not to see, as they see arguments.
        """
        with self._log(name).open("ab") as log:
            child = subprocess.Popen(
                python_of_parent(module, *arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                errors="replace",
                process_group=0,  # Ctrl-C is for the command, which then ends them in their order
            )
        self._running[name] = child
        assert child.stdin is not None
        with suppress(BrokenPipeError), child.stdin:
            child.stdin.write(given)
        threading.Thread(target=_tell, args=(child, tell), name=name, daemon=True).start()

    def wait(self, until: Callable[[], object], limit_s: float = float("inf")) -> None:
        """Wait for something. Raises ChildError if one of the programs ends meanwhile, or it lasts too long."""
        over = time.monotonic() + limit_s
        while True:
            for name, child in self._running.items():
                if child.poll() is not None:
                    raise ChildError(f"{name} ended with status {child.returncode}: {self._last_line(name)}")
            if until():
                return
            if time.monotonic() > over:
                raise ChildError(f"{', '.join(self._running)}: not ready after {limit_s:.0f} s")
            time.sleep(_LOOK_S)

    def watch(self, seconds: float) -> None:
        """Let them run for so long. Raises ChildError if one of them ends."""
        over = time.monotonic() + seconds
        self.wait(lambda: time.monotonic() >= over)

    def end(self) -> None:
        """End all that runs, the newest first; what does not end in time is killed."""
        for child in reversed(self._running.values()):
            child.terminate()
        over = time.monotonic() + _GRACE_S
        for child in self._running.values():
            try:
                child.wait(max(0.0, over - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

    def _log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def _last_line(self, name: str) -> str:
        lines = self._log(name).read_text(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "it said nothing")


def _tell(child: subprocess.Popen[str], tell: Callable[[str], object]) -> None:
    assert child.stdout is not None
    for line in child.stdout:
        tell(line.rstrip("\n"))


@contextmanager
def children(logs: Path) -> Iterator[Children]:
    """Let programs run for as long as the block does: Ctrl-C, SIGTERM, a closed terminal and an error end them all."""

    def interrupt(_number: int, _frame: object) -> NoReturn:
        raise KeyboardInterrupt

    nohup = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    signals = [number for number in _SIGNALS if number != signal.SIGHUP or not nohup]
    before = {number: signal.signal(number, interrupt) for number in signals}
    found = Children(logs)
    try:
        yield found
    finally:
        for number in signals:  # once more would leave some of them behind
            signal.signal(number, signal.SIG_IGN)
        found.end()
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def trial(folder: Path | None) -> Iterator[tuple[Path, Children]]:
    """Give ``try`` its folder, a temporary one where it names none, and programs; Ctrl-C ends it all in silence."""
    with suppress(KeyboardInterrupt), ExitStack() as stack:
        place = folder or Path(stack.enter_context(TemporaryDirectory(prefix="auricle-try-")))
        place.mkdir(parents=True, exist_ok=True)
        yield place, stack.enter_context(children(place))


def open_in_browser(url: str) -> None:
    """Open a page in a browser with windows, where there is one; one of the terminal would take its place."""
    with suppress(webbrowser.Error):
        browser = webbrowser.get()
        if "BROWSER" in os.environ or type(browser) is not webbrowser.GenericBrowser:
            threading.Thread(target=browser.open, args=(url,), daemon=True).start()
