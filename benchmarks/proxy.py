"""nginx before a server, by the configuration that comes with the aggregator (systemd/nginx.conf)."""

from __future__ import annotations

import random
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.command import ROOT, BenchmarkError

_CONFIGURATION = ROOT / "systemd" / "nginx.conf"


@contextmanager
def proxied(folder: Path, servers: list[str], certificate: Path | None = None, **changes: str) -> Iterator[str]:
    """Run nginx while the body runs; return its address.

    Args:
        folder: takes its files.
        servers: addresses of servers that speak plain HTTP.
        certificate: chain and key that it speaks TLS with, PEM; None: plain HTTP.
        changes: values of directives, instead of those of the file.

    Raises:
        BenchmarkError: nginx is not installed, or refuses the file.
    """
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        raise BenchmarkError("nginx is not installed: sudo apt-get install nginx-light")
    folder.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    text = _CONFIGURATION.read_text()
    for here, there in (
        ("/run/auricle-aggregator-proxy", str(folder)),
        ("        listen [::]:8470 ssl backlog=1024 so_keepalive=on; # remove it where the kernel has no IPv6\n", ""),
        ("listen 8470 ssl", f"listen 127.0.0.1:{port}" + (" ssl" if certificate else "")),
        ("/var/lib/auricle-aggregator/tls/server.pem", str(certificate)),
    ):
        if here not in text:
            raise BenchmarkError(f"{_CONFIGURATION} does not say {here!r}")
        text = text.replace(here, there)
    if certificate is None:
        text = re.sub(r"^ *ssl_certificate.*\n", "", text, flags=re.MULTILINE)
    for name, value in changes.items():
        text, count = re.subn(rf"^( *{name}) [^;]+;", rf"\1 {value};", text, flags=re.MULTILINE)
        if not count:
            raise BenchmarkError(f"{_CONFIGURATION} has no {name}")
    (folder / "nginx.conf").write_text(text)
    names = [server.partition("://")[2] for server in servers]
    (folder / "nginx-servers.conf").write_text("".join(f"server {name};\n" for name in names))
    command = [program, "-e", str(folder / "nginx.log"), "-c", str(folder / "nginx.conf")]
    checked = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False)
    if checked.returncode:
        raise BenchmarkError(checked.stderr)
    with (folder / "nginx.log").open("a") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        _wait(port, process)
        yield f"{'https' if certificate else 'http'}://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def _free_port() -> int:
    for port in random.SystemRandom().sample(range(12_000, 32_000), 100):  # systems draw from 32768 on
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise BenchmarkError("none of 100 ports between 12000 and 32000 is free")


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            continue
        return
    raise BenchmarkError(f"nginx ended with {process.returncode}")
