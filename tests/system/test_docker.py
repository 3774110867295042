"""The aggregator's image, as far as it can be checked without an engine: its files, its options, its health check."""

import json
import re
import shutil
import subprocess
import sys

import pytest
import yaml

from aggregator_server.cli import parser
from tests.support.checkout import ROOT

FOLDER = ROOT / "docker"
DATA = "/var/lib/auricle-aggregator"
SECRET = re.compile(r"token|secret|password|private[_-]?key", re.IGNORECASE)


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^\s*#.*\n", "", (FOLDER / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines if line.strip()]


def of(kind: str) -> list[str]:
    return [rest for name, rest in instructions() if name == kind]


@pytest.fixture(scope="module")
def service():
    return yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]["aggregator"]


def test_every_instruction_is_one_that_engines_know_and_hadolint_agrees_where_it_is():
    known = {"FROM", "WORKDIR", "COPY", "RUN", "LABEL", "ENV", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK"}
    assert {kind for kind, _ in instructions()} <= known | {"ENTRYPOINT", "CMD"}
    if shutil.which("hadolint"):
        subprocess.run(["hadolint", FOLDER / "Dockerfile"], check=True)


def test_the_image_is_pinned_and_is_not_run_by_root():
    images = [image.split()[0] for image in of("FROM")]
    assert images == ["python:3.11-slim-bookworm"] * 2, "a name and a tag, no registry's address"
    last = max(index for index, (kind, _) in enumerate(instructions()) if kind == "FROM")
    final = instructions()[last:]
    assert [rest for kind, rest in final if kind == "USER"] == ["8470:8470"]
    assert any("useradd" in rest and "--uid 8470" in rest for kind, rest in final if kind == "RUN")
    install = next(line for line in of("RUN") if "pip install" in line)
    assert "--constraint constraints.txt" in install
    assert "--no-cache-dir" in install


def test_what_is_copied_is_there_and_is_not_kept_out_of_the_build():
    kept = [line[1:] for line in (FOLDER / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")]
    assert all((ROOT / name).exists() for name in kept)
    built_from = {"pyproject.toml", "constraints.txt", "README.md", "LICENSE", "aggregator_server", "fleet_protocol"}
    assert built_from <= set(kept)
    for line in of("COPY"):
        if not line.startswith("--from"):
            assert all(name in (".", *kept) for name in line.split()[:-1])


def test_it_listens_keeps_its_data_and_says_how_it_is(service):
    assert json.loads(of("VOLUME")[0]) == [DATA]
    assert of("EXPOSE") == ["8470"]
    command = [*json.loads(of("ENTRYPOINT")[0]), *json.loads(of("CMD")[0])]
    assert command[0] == "auricle-aggregator"
    for words, tls in ((command[1:], "auto"), (service["command"], "proxy")):
        options = parser().parse_args(words)
        assert (str(options.data), options.host, options.port, options.tls) == (DATA, "0.0.0.0", 8470, tls)
    assert of("HEALTHCHECK")[0].endswith(f'"{DATA}", "8470"]')


def test_no_secret_stands_in_the_files(service):
    for name in ("ENV", "ARG", "LABEL"):
        assert not any(SECRET.search(line) for line in of(name))
    assert "environment" not in service
    assert "secrets" not in service


def test_the_service_may_write_to_its_volume_alone(service):
    assert service["volumes"] == [f"data:{DATA}"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert (ROOT / "docker" / service["build"]["context"] / service["build"]["dockerfile"]).is_file()


def test_nginx_alone_is_reached_and_knows_the_server(service):
    services = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    proxy = services["proxy"]
    (named,) = parser().parse_args(service["command"]).behind_proxy
    assert named.network_address.compressed == proxy["networks"]["fleet"]["ipv4_address"]
    known = (FOLDER / "nginx-servers.conf").read_text()
    assert known == f"server {service['networks']['fleet']['ipv4_address']}:8470;\n"
    assert (proxy["ports"], "ports" in service) == (["8470:8470"], False)
    assert [volume.split(":")[0] for volume in proxy["volumes"]] == [
        "../systemd/nginx.conf",
        "./nginx-servers.conf",
        "data",
    ]
    assert all(volume.endswith(":ro") for volume in proxy["volumes"])


@pytest.mark.parametrize("options", [(), ("--tls", "auto"), ("--tls", "proxy")])
def test_the_health_check_tells_a_server_that_runs_from_one_that_does_not(start_aggregator, options):
    server = start_aggregator("server", *options)

    def check() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, FOLDER / "healthcheck.py", server.data, server.url.rpartition(":")[2]]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)

    answer = check()
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["status"] == "ok"
    server.kill()
    assert check().returncode == 1
