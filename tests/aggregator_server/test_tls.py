"""TLS on real sockets: the server's own authority and certificate, certificates from elsewhere, and plain HTTP."""

import json
import ssl
import stat
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from cryptography import x509

from aggregator_server import tls
from aggregator_server.errors import StartError
from aggregator_server.web.listening import Listening
from fleet_protocol.messages.invitation_link import InvitationLink
from tests.support.aggregator_process import public_set
from tests.support.commands import answer, command, failed, printed

NOW = datetime.now(UTC).replace(microsecond=0)


def health(server, **verification):
    with server.client(None, **verification) as client:
        return client.get("/v1/health").json()["status"]


def test_the_authority_is_made_once_and_its_keys_are_the_owners_alone(tmp_path):
    first = tls.automatic(tmp_path, ["a.example"], NOW)
    kept = {path.name: path.read_bytes() for path in (tmp_path / "tls").iterdir()}
    assert tls.automatic(tmp_path, ["a.example"], NOW) == first
    assert {path.name: path.read_bytes() for path in (tmp_path / "tls").iterdir()} == kept
    assert set(kept) == {"authority.pem", "server.pem"}
    assert {stat.S_IMODE((tmp_path / "tls" / name).stat().st_mode) for name in kept} == {0o600}
    assert stat.S_IMODE((tmp_path / "tls").stat().st_mode) == 0o700
    assert len(tls.fingerprint(first.authority)) == 64


@pytest.mark.parametrize(
    ("names", "now"), [(["a.example", "b.example"], NOW), (["a.example"], NOW + timedelta(days=4.5 * 365))]
)
def test_a_certificate_that_is_old_or_lacks_a_name_is_made_anew_by_the_same_authority(tmp_path, names, now):
    first = tls.automatic(tmp_path, ["a.example"], NOW)
    before = first.file.read_bytes()
    again = tls.automatic(tmp_path, names, now)
    assert again.authority == first.authority
    assert again.file.read_bytes() != before


@pytest.mark.parametrize("name", ["authority.pem", "server.pem"])
def test_damaged_keys_are_named_and_not_replaced(tmp_path, name):
    tls.automatic(tmp_path, [], NOW)
    damaged = tmp_path / "tls" / name
    damaged.write_bytes(damaged.read_bytes()[:50])
    with pytest.raises(StartError, match="restore it from a backup"):
        tls.automatic(tmp_path, [], NOW)
    assert len(damaged.read_bytes()) == 50


def test_a_server_with_its_own_authority_is_known_by_it_alone(start_aggregator, tmp_path):
    server = start_aggregator("private", "--tls", "auto")
    assert server.url.startswith("https://127.0.0.1:")
    assert health(server) == "ok"
    other = ssl.create_default_context(cadata=tls.automatic(tmp_path / "other", [], NOW).authority)
    for verification in (True, other):
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            health(server, verify=verification)
    with pytest.raises(httpx.HTTPError), httpx.Client(trust_env=False) as plain:
        plain.get(server.url.replace("https", "http") + "/v1/health")
    kept = (server.data / "tls" / "authority.pem").read_bytes()
    server.client(None).get("/v1/health").raise_for_status()  # a browser keeps its connection, and never says goodbye
    assert server.stop() == 0
    assert "timeout graceful shutdown exceeded" not in server.log()
    (server.data / "tls" / "server.pem").unlink()  # as when it is renewed
    server.start()
    assert health(server) == "ok"
    assert (server.data / "tls" / "authority.pem").read_bytes() == kept


def test_the_certificate_names_the_host_that_devices_are_told(tmp_path):
    listening = Listening(urls=("https://sounds.example:8470", "https://other.example"), tls_mode="auto")
    found = x509.load_pem_x509_certificate(listening.certificate(tmp_path).file.read_bytes())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"sounds.example", "other.example", "localhost"} <= set(names.get_values_for_type(x509.DNSName))


def test_invitations_name_the_authority_and_commands_trust_it(start_aggregator, tmp_path):
    server = start_aggregator("private", "--tls", "auto")
    link = InvitationLink.parse(answer("invite", "--data", server.data)["link"])
    with server.client(None) as client:
        shown = client.get("/v1/authority").json()["certificate"]
    assert (link.url, link.authority) == (server.url, tls.fingerprint(shown))
    assert "PRIVATE" not in shown
    file, authority = tmp_path / "public.safetensors", server.data / "tls" / "authority.pem"
    file.write_bytes(public_set().pack())
    publish = ("publish", file, "--url", server.url)
    failed(command(*publish), "CERTIFICATE_VERIFY_FAILED")
    assert json.loads(printed(*publish, "--authority", authority))["samples"] == 24
    failed(command(*publish, "--authority", file), str(file))


def test_a_certificate_from_elsewhere(start_aggregator, tmp_path):
    made = tls.automatic(tmp_path / "elsewhere", [], NOW)
    server = start_aggregator("public", "--tls-cert", str(made.file), "--tls-key", str(made.file))
    assert health(server, verify=ssl.create_default_context(cadata=made.authority)) == "ok"
    with server.client(None, verify=ssl.create_default_context(cadata=made.authority)) as client:
        assert client.get("/v1/authority").status_code == 404
    invited = answer("invite", "--url", "https://a.example", "--data", server.data)
    assert InvitationLink.parse(invited["link"]).authority is None


def test_options_that_do_not_fit_are_explained(tmp_path):
    made = tls.automatic(tmp_path / "elsewhere", [], NOW)
    other = tls.automatic(tmp_path / "another", [], NOW)
    (tmp_path / "key").write_bytes(other.file.read_bytes().split(b"-----BEGIN CERT")[0])
    wrong = {
        "--tls-cert": (("--tls", "auto", "--tls-cert", "x", "--tls-key", "y"),),
        "belong together": (("--tls-cert", "x"), ("--tls-key", "x")),
        "cannot be used": (
            ("--tls-cert", "missing", "--tls-key", "missing"),
            ("--tls-cert", str(made.file), "--tls-key", str(tmp_path / "key")),
        ),
        "--insecure-http": (("--host", "0.0.0.0"),),
    }
    for words, cases in wrong.items():
        for options in cases:
            failed(command("run", "--create", "--data", tmp_path / "data", "--port", "0", *options), words)
