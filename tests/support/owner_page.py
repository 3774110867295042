"""The owner's page as a process of its own, beside a daemon."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.checkout import ROOT
from tests.support.edge_process import EdgeDaemon


class OwnerPage:
    """`auricle-edge ui` on a free port; ``url`` is where it listens, without a slash at its end."""

    def __init__(
        self,
        config: Path,
        *options: str,
        environment: Mapping[str, str] = os.environ,
        scheme: str = "http",
        program: Sequence[str] = ("-m", "edge_client.cli"),
    ):
        command = [sys.executable, *program, "ui", "--config", str(config), "--port", "0", *options]
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=dict(environment), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        line = self.process.stdout.readline()
        found = re.search(rf"{scheme}://\S+:\d+", line)
        if found is None:
            out, errors = self.process.communicate(timeout=180)
            raise AssertionError(f"no page: {line}{out}{errors}")
        self.url = found[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Kill it where a test failed before it ended it."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def connect(self, source: str = "127.0.0.1", data: bytes = b"") -> socket.socket:
        """Return a connection from an address of this machine, on which some bytes were sent."""
        place = ("127.0.0.1", int(self.url.rpartition(":")[2]))
        connection = socket.create_connection(place, timeout=180, source_address=(source, 0))
        connection.sendall(data)
        return connection

    def end(self) -> str:
        """Ask it to end, which it must do well; return what it wrote to its standard error."""
        self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=180)
        assert self.process.returncode == 0, errors
        assert "Traceback" not in errors
        return errors


@contextlib.contextmanager
def page_beside(device: EdgeDaemon, environment: Mapping[str, str] = os.environ):
    """The page of a device that was started; both must end well."""
    with device, OwnerPage(device.config, environment=environment) as page:
        yield page
        page.end()
        assert device.end() == 0
        assert "Traceback" not in device.log()
