"""Answers of a server that would fill a device's memory or keep it waiting for hours: each ends with a clear error."""

import functools
import json
import re
import subprocess
import sys
import zlib

import pytest

from tests.support.checkout import ROOT
from tests.support.hostile_server import MB, HostileServer, dribble, endless, whole

SIZE = 1_500 * MB
# Asks for work, or for a blob, in a process of its own; says what came of it and how much memory it took at most.
CLIENT = """
import json, resource, sys
from pathlib import Path
import httpx
from fleet_protocol.client.answers import Bounds
from fleet_protocol.client.identity import Identity
from fleet_protocol.client.server_client import ServerClient
from fleet_protocol.errors import LinkError
url, asked, folder, seconds = sys.argv[1:5]
client = ServerClient(url, Identity("1" * 32, "secret"), Bounds(seconds=float(seconds)))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    if asked == "work":
        client.work(0.0)
    else:
        client.fetch("0" * 64, Path(folder) / ("0" * 64), client.bounds.model_bytes, lambda: None)
    error = ""
except LinkError as found:
    error = f"{type(found).__name__}: {found}"
client.close()
mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
print(json.dumps({"error": error, "mb": mb, "left": len(list(Path(folder).iterdir()))}))
"""


@functools.cache
def expanding(size):
    """Gzip of so many zeros: a thousandth of it."""
    packer = zlib.compressobj(9, wbits=31)
    return b"".join(packer.compress(bytes(MB)) for _ in range(size // MB)) + packer.flush()


@pytest.fixture
def ask(tmp_path):
    (tmp_path / "blobs").mkdir()

    def asked(answer, what, seconds=120):
        with HostileServer(answer) as server:
            command = [sys.executable, "-c", CLIENT, server.url, what, str(tmp_path / "blobs"), str(seconds)]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return asked


def header(**headers):
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 200 OK\r\n{lines}\r\n".encode()


LARGE = "UnreachableError: http://127.0.0.1:[0-9]+ answered /v1/.* with .*[0-9]+ bytes.*"
SLOW = "UnreachableError: the aggregator at .* took longer than 3 s, or sends too slowly"
PACKED = "UnreachableError: .* compressed .gzip., which was not asked for"
ANSWERS = {
    "1.5 GB, announced": (lambda: endless(SIZE, announced=True), LARGE),
    "1.5 GB, not announced": (lambda: endless(SIZE, announced=False), LARGE),
    "1.5 GB of an error, not announced": (
        lambda: endless(SIZE, announced=False, status="404 Not Found"),
        f"{LARGE}|.*not as an aggregator.*",
    ),
    "1 MB of gzip that expands to 1 GB": (
        lambda: whole(expanding(1024 * MB), headers="Content-Encoding: gzip\r\n"),
        PACKED,
    ),
    "1 byte in 0.5 s of the headers": (lambda: dribble(b"HTTP/1.1 200 OK\r\nX: ", b"x", 0.5), SLOW),
    "1 byte in 0.5 s of the body": (lambda: dribble(header(Content_Length=1000), b" ", 0.5), SLOW),
    "1 byte in 0.5 s of a chunk's head": (lambda: dribble(header(Transfer_Encoding="chunked"), b"0", 0.5), SLOW),
    "nothing": (lambda: dribble(b"", b"", 0.5), SLOW),
}


CASES = [(name, "work") for name in ANSWERS] + [(name, "blob") for name in ANSWERS if "announced" in name]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "what"), CASES)
def test_an_answer_without_measure_ends_with_an_error_and_little_memory(ask, name, what):
    made, expected = ANSWERS[name]
    found = ask(made(), what, 3 if expected == SLOW else 120)
    assert re.fullmatch(expected, found["error"]), found
    assert found["mb"] < 40, found
    assert found["left"] == 0  # nothing half-written stays


@pytest.mark.parametrize("body", [b"[" * 500_000, b"{}," * 300_000, b'{"a":' * 150_000])
def test_json_that_is_all_brackets_takes_little_memory(ask, body):
    found = ask(whole(body), "work")
    assert "answered what no aggregator would" in found["error"]
    assert found["mb"] < 120, found
