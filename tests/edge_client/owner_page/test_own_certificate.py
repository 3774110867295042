"""The page's own certificate: what a TLS client sees, and when another one is made."""

import os
import re
import shutil
import signal
import socket
import ssl
from datetime import UTC, datetime
from hashlib import sha256

import httpx
import pytest

from aggregator_server import tls
from edge_client.config.sections import UiConfig
from edge_client.errors import ConfigError
from edge_client.owner_page.own_certificate import fingerprint, own_certificate
from fleet_protocol.ground.atomic_files import write_durably
from tests.support.edge_process import EdgeDaemon
from tests.support.owner_page import OwnerPage

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl: apt install openssl")

BEYOND = UiConfig(host="0.0.0.0", names=("Shelf.test",))


def shown(folder, page):
    """The certificate's digest as the terminal says it, the link of the code, and the certificate that is served."""
    lines = iter(page.process.stdout.readline, "")
    digest = next(line.strip() for line in lines if re.fullmatch(r"([0-9A-F]{2}:){31}[0-9A-F]{2}\n", line))
    link = next(line for line in lines if "phone's camera" in line).rpartition(" ")[2].strip()
    trusting = ssl.create_default_context(cafile=str(folder / "state" / "page.pem"))
    port = int(page.url.rpartition(":")[2])
    # It may be asked for by the name of the code: its certificate is checked for that.
    name = re.match(r"https://([^:/]+):", link)[1]
    plain = socket.create_connection(("127.0.0.1", port), timeout=180)
    with trusting.wrap_socket(plain, server_hostname=name) as secure:
        served = secure.getpeercert(binary_form=True)
    return digest, link, sha256(served).digest().hex(":").upper()


def test_a_phone_gets_tls_by_a_certificate_of_the_page_s_own_whose_fingerprint_the_terminal_says(tmp_path):
    device = EdgeDaemon(tmp_path / "shelf", "cnn1", '[ui]\nhost = "0.0.0.0"\n')
    with OwnerPage(device.config, "--phone", scheme="https") as page:
        digest, link, served = shown(device.folder, page)
        assert digest == served
        assert link.startswith(f"https://{socket.gethostname()}.local:")
        file = device.folder / "state" / "page.pem"
        assert file.stat().st_mode & 0o777 == 0o600
        address = page.url.replace("0.0.0.0", "localhost")
        with httpx.Client(verify=ssl.create_default_context(cafile=str(file)), timeout=180) as client:
            form = {"token": link.rpartition("#")[2]}
            answer = client.post(f"{address}/sign-in", data=form, headers={"Origin": address})
        assert answer.status_code == 303
        assert "Secure" in answer.headers["set-cookie"]
        page.end()
    with OwnerPage(device.config, "--phone", scheme="https") as again:
        assert shown(device.folder, again)[0] == digest
        again.end()


OFTEN = """
import sys
from edge_client.cli import main
from edge_client.owner_page import server
server._CERTIFICATE_S = 0
sys.exit(main())
"""


def test_a_page_that_runs_renews_it_and_goes_on_with_it_where_it_cannot(tmp_path):
    device = EdgeDaemon(tmp_path / "shelf", "cnn1", '[ui]\nhost = "0.0.0.0"\n')
    file = device.folder / "state" / "page.pem"
    old = tls.automatic(tmp_path / "old", [], datetime(2021, 1, 1, tzinfo=UTC)).file
    with OwnerPage(device.config, scheme="https", program=("-c", OFTEN)) as page:
        place = ("127.0.0.1", int(page.url.rpartition(":")[2]))

        def served():
            return sha256(ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(place))).digest().hex(":").upper()

        def read_until(words):
            return next(line for line in iter(page.process.stderr.readline, "") if words in line)

        first = served()
        assert first == fingerprint(file)
        write_durably(file, old.read_bytes())  # as if years had passed
        assert (renewed := read_until("now has the SHA-256 fingerprint").split()[-1]) not in (first, fingerprint(old))
        assert served() == renewed == fingerprint(file)
        page.process.send_signal(signal.SIGSTOP)  # or it makes another one in between
        os.waitid(os.P_PID, page.process.pid, os.WSTOPPED | os.WNOWAIT)
        file.unlink()
        file.mkdir()  # nothing can be written there
        page.process.send_signal(signal.SIGCONT)
        assert "page.pem" in read_until("the page goes on with the certificate that it has")
        assert served() == renewed
        page.end()


def test_it_is_kept_and_made_anew_where_it_ended_is_damaged_or_lacks_a_name(tmp_path, caplog):
    path = own_certificate(tmp_path, BEYOND)
    first = fingerprint(path)
    assert fingerprint(own_certificate(tmp_path, BEYOND)) == first
    assert caplog.text == ""

    old = tls.automatic(tmp_path / "old", ["shelf.test"], datetime(2021, 1, 1, tzinfo=UTC)).file.read_bytes()
    for content, why in (
        (old, "ends within a year"),
        (path.read_bytes()[:-40], "cannot be used"),
        (b"", "cannot be used"),
    ):
        caplog.clear()
        path.write_bytes(content)
        renewed = fingerprint(own_certificate(tmp_path, BEYOND))
        assert renewed != first
        assert f"page.pem {why}" in caplog.text
        assert path.stat().st_mode & 0o777 == 0o600
        assert fingerprint(own_certificate(tmp_path, BEYOND)) == renewed
    caplog.clear()
    own_certificate(tmp_path, UiConfig(host="2001:db8::7"))
    assert "is not for 2001:db8::7; another certificate is made" in caplog.text
    caplog.clear()
    own_certificate(tmp_path, UiConfig(host="2001:0db8::7"))  # the same
    assert caplog.text == ""


def test_without_openssl_the_owner_is_told_what_to_do_and_an_odd_name_is_refused(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="openssl made no certificate"):
        own_certificate(tmp_path, UiConfig(host="0.0.0.0", names=("a,b\n[",)))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"apt install openssl; or name .* insecure_http = true"):
        own_certificate(tmp_path, BEYOND)
    assert not list(tmp_path.iterdir())
