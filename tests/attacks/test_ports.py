"""A port that cannot be one is called by its name, on both sides; resolvers silently take another, or know no host."""

import subprocess
import sys

import pytest

from edge_client.config.sections import RefusedValueError, ServerConfig
from tests.support.checkout import ROOT


@pytest.mark.parametrize("port", ["99999", "-1", "65536"])
def test_a_server_says_which_ports_there_are(tmp_path, port):
    command = [sys.executable, "-m", "aggregator_server.cli", "run", "--data", str(tmp_path / "data"), f"--port={port}"]
    command.append("--create")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"auricle-aggregator: --port must be from 0 to 65535, not {port}\n"


@pytest.mark.parametrize("port", ["99999", "0", "x"])
def test_publishing_says_that_the_address_is_none(tmp_path, port):
    path = tmp_path / "file"
    path.write_bytes(b"x")
    command = [sys.executable, "-m", "aggregator_server.cli", "publish", str(path), "--token", "a" * 20]
    url = f"http://127.0.0.1:{port}"
    done = subprocess.run([*command, "--url", url], cwd=ROOT, capture_output=True, text=True, timeout=180, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
    assert url in done.stderr


@pytest.mark.parametrize("port", ["99999", "0", "x"])
def test_a_device_says_that_the_address_is_none(port):
    with pytest.raises(RefusedValueError, match=rf"{port}.*[Pp]ort"):
        ServerConfig(url=f"http://aggregator.local:{port}")
