"""The owner's page as a process of its own, beside a daemon."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.checkout import ROOT


class OwnerPage:
    """`auricle-edge ui` on a free port; ``url`` is where it listens, without a slash at its end."""

    def __init__(self, config: Path, *options: str):
        command = [sys.executable, "-m", "edge_client.cli", "ui", "--config", str(config), "--port", "0", *options]
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=dict(os.environ), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        line = self.process.stdout.readline()
        found = re.search(r"http://\S+:\d+", line)
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

    def end(self) -> tuple[int, str]:
        """Ask it to end; return its exit status and what it wrote to its standard error."""
        self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=180)
        return self.process.returncode, errors
