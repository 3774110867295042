"""The configurations of docs/operating.md before a real server: HAProxy and nginx, where they are installed."""

import re
import shutil
import ssl
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from aggregator_server import tls
from tests.support.checkout import ROOT
from tests.support.desk import free_port
from tests.support.edge_process import wait_for

pytestmark = pytest.mark.slow

BLOCK = re.compile(r"^```(haproxy|nginx)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PASSED, ENDED = "TLS passed through", "TLS ended"
CLIENT, OPERATOR = "127.0.0.9", "127.0.0.8"


def documented(title: str, program: str) -> str:
    """Return the configuration under a heading of the page."""
    section = (ROOT / "docs/operating.md").read_text().split(f"\n### {title}\n")[1].split("\n### ")[0]
    (found,) = [text for language, text in BLOCK.findall(section) if language == program]
    return found


def adapted(text: str, port: int, server: int, certificate: Path) -> str:
    """Put this machine's ports and files into a configuration. The second server is gone."""
    changes = {
        "10.0.0.11:8470": f"127.0.0.1:{server}",
        "10.0.0.12:8470": f"127.0.0.1:{free_port()}",
        "bind :8470": f"bind 127.0.0.1:{port}",
        "bind :443": f"bind 127.0.0.1:{port}",
        "listen 8470": f"listen 127.0.0.1:{port}",
        "listen 443": f"listen 127.0.0.1:{port}",
        "/etc/haproxy/fleet.pem": str(certificate),
        "/etc/nginx/fleet.pem": str(certificate),
    }
    for documented_, here in changes.items():
        text = text.replace(documented_, here)
    return text


def command(program: str, folder: Path, text: str) -> list[str]:
    """Write a configuration file, have the program check it, and return how it is run."""
    path = shutil.which(program)
    file = folder / f"{program}.cfg"
    if program == "haproxy":
        file.write_text(text)
        checked, run = [path, "-c", "-f", str(file)], [path, "-db", "-f", str(file)]
    else:
        module = Path(path).resolve().parents[1] / "lib/nginx/modules/ngx_stream_module.so"
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        folders = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in kinds)
        if "stream {" in text and not module.exists():
            pytest.skip("nginx has no module for TLS that is passed through: libnginx-mod-stream is not installed")
        head = f"load_module {module};\n" if "stream {" in text else ""
        head += f"daemon off;\npid {folder}/pid;\nerror_log {folder}/nginx.log;\nevents {{}}\n"
        file.write_text(head + text.replace("http {\n", f"http {{\naccess_log off;\n{folders}"))
        run = [path, "-p", str(folder), "-c", str(file)]
        checked = [*run, "-t"]
    done = subprocess.run(checked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return run


@pytest.mark.parametrize("title", [PASSED, ENDED])
@pytest.mark.parametrize("program", ["haproxy", "nginx"])
def test_a_request_comes_through_with_its_own_address(tmp_path, start_aggregator, program, title):
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    ways = {PASSED: ("--tls", "auto", "--proxy-protocol"), ENDED: ()}
    server, port = start_aggregator("server", "--behind-proxy", "127.0.0.1", *ways[title]), free_port()
    made = tls.automatic(tmp_path / "balancer", [], datetime.now(UTC))
    authority = server.data / "tls" / "authority.pem" if title == PASSED else tmp_path / "balancer/tls/authority.pem"
    text = adapted(documented(title, program), port, int(server.url.rpartition(":")[2]), made.file)
    with (tmp_path / "balancer.log").open("w") as log:
        balancer = subprocess.Popen(command(program, tmp_path, text), stdout=log, stderr=log)
    try:
        trusted = ssl.create_default_context(cafile=authority)
        way = httpx.HTTPTransport(verify=trusted, local_address=CLIENT)
        with httpx.Client(base_url=f"https://127.0.0.1:{port}", transport=way) as client:

            def ready() -> bool:
                try:
                    return client.get("/v1/health/ready").status_code == 200
                except httpx.TransportError:
                    return False

            wait_for(ready, 60, "a server behind the balancer")
            for _ in range(6):  # whichever server it chooses
                guess = {"Authorization": "Bearer a-guess", "X-Forwarded-For": "203.0.113.9"}
                assert client.get("/v1/rounds", headers=guess).status_code == 401
        with server.client(address=OPERATOR) as admin:
            entries = admin.get("/v1/audit", params={"what": "authentication_failed"}).json()
        assert [entry["address"] for entry in entries] == [CLIENT] * 6
    finally:
        balancer.terminate()
        balancer.wait(60)
