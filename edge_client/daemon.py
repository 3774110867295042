"""The daemon: runs the device's loops and ends them cleanly when asked to."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

from edge_client.config import load_config
from edge_client.errors import ConfigError
from edge_client.learner import Learner

log = logging.getLogger(__name__)

# Seconds that a loop has to end; a long poll may last longer, and nothing is lost by leaving it.
_GRACE_S = 8.0
_POLL_S = 0.5


def run(config_path: Path) -> int:
    """Run until SIGTERM or SIGINT; return the exit status.

    Raises:
        EdgeError: the configuration, the state folder or the bundle cannot be used.
    """
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    config = load_config(config_path)
    stop = threading.Event()

    def ask_to_stop(number: int, _: FrameType | None) -> None:
        log.info("stopping on %s", signal.Signals(number).name)
        stop.set()

    signal.signal(signal.SIGTERM, ask_to_stop)
    signal.signal(signal.SIGINT, ask_to_stop)
    if config.server is None:
        raise ConfigError(f"{config_path}: needs a section [server]")
    learner = Learner(config, config.server, config_path.resolve(), stop)
    failures: list[BaseException] = []

    def learn() -> None:
        try:
            learner.run()
        except BaseException as error:
            failures.append(error)
            log.exception("the learning loop failed")

    thread = threading.Thread(target=learn, name="learner", daemon=True)
    thread.start()
    while thread.is_alive() and not stop.is_set():
        stop.wait(_POLL_S)
    stop.set()
    thread.join(_GRACE_S)
    return 1 if failures else 0
