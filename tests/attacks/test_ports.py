"""A port that cannot be one is called by its name, on both sides; resolvers silently take another, or know no host."""

import pytest

from edge_client.config.sections import RefusedValueError, ServerConfig
from tests.support.commands import command, failed


@pytest.mark.parametrize("port", ["99999", "-1", "65536"])
def test_a_server_says_which_ports_there_are(tmp_path, port):
    refused = command("run", "--create", "--data", tmp_path / "data", f"--port={port}")
    failed(refused, f"auricle-aggregator: --port must be from 0 to 65535, not {port}\n")


@pytest.mark.parametrize("port", ["99999", "0", "x"])
def test_an_address_with_such_a_port_is_none_for_commands_and_devices(tmp_path, port):
    (tmp_path / "file").write_bytes(b"x")
    failed(command("publish", tmp_path / "file", "--url", f"http://127.0.0.1:{port}"), f"http://127.0.0.1:{port}")
    with pytest.raises(RefusedValueError, match=rf"{port}.*[Pp]ort"):
        ServerConfig(url=f"http://aggregator.local:{port}")
