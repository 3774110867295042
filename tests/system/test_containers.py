"""The aggregator's image, alone and as several servers, as far as that can be checked without an engine.

The options are those of the server. What the containers do in common (the keys of the fleet, the balancer) is done here
by the same programs.
"""

import ipaddress
import json
import re
import shutil
import ssl
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import httpx
import pytest
import yaml

from aggregator_server.cli import parser
from aggregator_server.web.process import _GRACE_S
from benchmarks.proxy import proxied
from tests.support.aggregator_process import public_set
from tests.support.checkout import ROOT
from tests.support.edge_process import wait_for

FOLDER = ROOT / "docker"
DATA = "/var/lib/auricle-aggregator"
SEVERAL = ROOT / "docker/several"
KEYS = "/var/lib/auricle-keys"
SHARE = ["python", "/opt/auricle-aggregator/share_keys.py", KEYS, DATA]


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^\s*#.*\n", "", (FOLDER / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines if line.strip()]


def of(kind: str) -> list[str]:
    return [rest for name, rest in instructions() if name == kind]


@pytest.fixture(scope="module")
def service():
    return yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]["aggregator"]


def test_it_listens_keeps_its_data_and_says_how_it_is(service):
    assert json.loads(of("VOLUME")[0]) == [DATA]
    assert of("EXPOSE") == ["8470"]
    command = [*json.loads(of("ENTRYPOINT")[0]), *json.loads(of("CMD")[0])]
    assert command[0] == "auricle-aggregator"
    for words, tls in ((command[1:], "auto"), (service["command"], "proxy")):
        options = parser().parse_args(words)
        assert (str(options.data), options.host, options.port, options.tls) == (DATA, "0.0.0.0", 8470, tls)
    assert of("HEALTHCHECK")[0].endswith(f'"{DATA}", "8470"]')


def test_nginx_alone_is_reached_and_knows_the_server(service):
    services = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    proxy = services["proxy"]
    (named,) = parser().parse_args(service["command"]).behind_proxy
    assert named.network_address.compressed == proxy["networks"]["fleet"]["ipv4_address"]
    known = (FOLDER / "nginx-servers.conf").read_text()
    assert known == f"server {service['networks']['fleet']['ipv4_address']}:8470;\n"
    assert (proxy["ports"], "ports" in service) == (["8470:8470"], False)
    mounted = {tuple(volume.split(":")[::2]) for volume in proxy["volumes"]}
    assert mounted == {(name, "ro") for name in ("../systemd/nginx.conf", "./nginx-servers.conf", "data")}


@pytest.mark.parametrize("options", [(), ("--tls", "auto"), ("--tls", "proxy")])
def test_the_health_check_tells_a_server_that_runs_from_one_that_does_not(start_aggregator, options):
    server = start_aggregator("server", *options)

    def check():
        command = [sys.executable, FOLDER / "healthcheck.py", server.data, server.url.rpartition(":")[2]]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)

    # It gives a server four seconds, and an engine asks again and again.
    answer = wait_for(lambda: (done := check()).returncode == 0 and done, what="a server that is well")
    assert json.loads(answer.stdout)["status"] == "ok"
    server.kill()
    assert check().returncode == 1


@pytest.fixture(scope="module")
def compose():
    return yaml.safe_load((SEVERAL / "compose.yaml").read_text())


def servers_of(compose):
    return {name: service for name, service in compose["services"].items() if name.startswith("server-")}


def address_of(compose, name):
    return compose["services"][name]["networks"]["fleet"]["ipv4_address"]


def test_both_servers_run_as_the_parser_has_it_and_end_in_the_time_that_they_get(compose):
    servers = servers_of(compose)
    assert len(servers) == 2
    (network,) = compose["networks"]["fleet"]["ipam"]["config"]
    for service in servers.values():
        options = parser().parse_args(service["command"])
        assert (str(options.data), options.host, options.port, options.tls) == (DATA, "0.0.0.0", 8470, "proxy")
        assert options.create, "the first start finds an empty database"
        assert [str(proxy) for proxy in options.behind_proxy] == [f"{address_of(compose, 'balancer')}/32"]
        assert options.insecure_http
        assert int(service["stop_grace_period"].removesuffix("s")) >= 2 * _GRACE_S
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        environment = service["environment"]
        assert f"@{address_of(compose, 'database')}/auricle" in environment["AURICLE_DATABASE"]
        assert environment["AWS_ENDPOINT"] == f"http://{address_of(compose, 'store')}:3900"
    known = re.findall(r"^server (\S+) ", (SEVERAL / "nginx-servers.conf").read_text(), re.MULTILINE)
    assert known == [f"{address_of(compose, name)}:8470" for name in servers]
    for name in ("balancer", "database", "store", *servers):
        assert ipaddress.ip_address(address_of(compose, name)) in ipaddress.ip_network(network["subnet"])


def test_secrets_come_from_outside_and_every_server_gets_the_same_keys(compose):
    for service in compose["services"].values():
        for name, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET|KEY|DATABASE$", name):
                assert re.search(r"\$\{AURICLE_[A-Z_]+:\?", value), name
    for name, service in servers_of(compose).items():
        keys = compose["services"][name.replace("server", "keys")]
        assert keys["entrypoint"] == SHARE
        (own,) = service["volumes"]
        assert keys["volumes"] == [f"keys:{KEYS}", own]
        assert keys["restart"] == "no"
        # The one is done after the other, so that one alone makes them.
        assert service["depends_on"]["keys-b"]["condition"] == "service_completed_successfully"
    assert "keys-a" in compose["services"]["keys-b"]["depends_on"]


def test_the_store_makes_what_it_has_durable_and_has_the_names_that_the_servers_use(compose):
    garage = tomllib.loads((SEVERAL / "garage.toml").read_text())
    assert garage["data_fsync"] is garage["metadata_fsync"] is True
    store, server = compose["services"]["store"], servers_of(compose)["server-a"]["environment"]
    mounted = [volume.split(":")[1] for volume in store["volumes"]]
    assert {garage["data_dir"], garage["metadata_dir"]} <= set(mounted)
    assert server["AURICLE_STORE"].startswith(f"s3://{store['environment']['GARAGE_DEFAULT_BUCKET']}/")
    assert server["AWS_REGION"] == garage["s3_api"]["s3_region"]
    assert server["AWS_ACCESS_KEY_ID"] == store["environment"]["GARAGE_DEFAULT_ACCESS_KEY"]
    assert server["AWS_ENDPOINT"].endswith(garage["s3_api"]["api_bind_addr"].rpartition(":")[2])


def share_keys(*folders: Path):
    command = [sys.executable, str(ROOT / "docker/share_keys.py"), *map(str, folders)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("nginx") is None, reason="nginx is not installed (Debian: apt-get install nginx-light)"
)
def test_two_servers_with_the_same_keys_are_one_fleet_behind_nginx(tmp_path, start_aggregator, states, monkeypatch):
    keys, place = tmp_path / "keys", states.of(tmp_path / "fleet")
    for name, value in states.s3.environment.items():
        monkeypatch.setenv(name, value)
    for name in ("a", "b"):
        done = share_keys(keys, tmp_path / name)
        assert done.returncode == 0, done.stderr
    for path in ("tokens.json", "tls/authority.pem"):
        assert (tmp_path / "a" / path).read_bytes() == (tmp_path / "b" / path).read_bytes()
        assert stat.S_IMODE((tmp_path / "b" / path).stat().st_mode) == 0o600
    ways = ("--tls", "proxy", "--behind-proxy", "127.0.0.1", "--database", place.database, "--store", place.store)
    servers = [start_aggregator(name, *ways, tokens={}) for name in ("a", "b")]
    trusted = ssl.create_default_context(cafile=keys / "tls/authority.pem")
    token = json.loads((keys / "tokens.json").read_text())["admin"]
    with servers[0].client(token, address="127.0.0.8") as admin:
        admin.put("/v1/public-set", content=public_set().pack()).raise_for_status()
    with proxied(tmp_path / "proxy", [server.url for server in servers], tmp_path / "a/tls/server.pem") as url:

        def published() -> bool:  # on a new connection, which any of the servers may get
            head = {"Authorization": f"Bearer {token}"}
            with httpx.Client(base_url=url, verify=trusted, headers=head, timeout=180) as client:
                return client.get("/v1/public-set").status_code == 200

        wait_for(published, what="a server behind nginx")
        guess = {"Authorization": "Bearer a-guess", "X-Forwarded-For": "203.0.113.9"}
        way = httpx.HTTPTransport(verify=trusted, local_address="127.0.0.9")
        with httpx.Client(base_url=url, transport=way, timeout=180) as client:
            assert client.get("/v1/rounds", headers=guess).status_code == 401
        servers[0].kill()
        assert all(published() for _ in range(4))
    with servers[1].client(token) as admin:
        assert admin.get("/v1/audit", params={"what": "authentication_failed"}).json()[0]["address"] == "127.0.0.9"


def test_keys_that_cannot_be_made_are_said_and_no_server_starts_without_them(tmp_path):
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/tokens.json").write_text("{}")
    done = share_keys(tmp_path / "keys", tmp_path / "data")
    assert done.returncode == 1
    assert "tokens.json cannot be used" in done.stderr
    assert not (tmp_path / "data").exists()
