"""The command ``auricle-aggregator``: what it prints, and how it fails."""

import json
import socket
import subprocess
import sys

import pytest

from tests.support.aggregator_process import ADMIN, public_set


def command(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "aggregator_server.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PATH": "", **environment},
    )


def test_tokens_are_printed_and_stay_the_same(tmp_path):
    first, second = command("tokens", "--data", str(tmp_path)), command("tokens", "--data", str(tmp_path))
    assert json.loads(first.stdout) == json.loads(second.stdout) == json.loads((tmp_path / "tokens.json").read_text())
    given = {"AURICLE_ADMIN_TOKEN": "a" * 20, "AURICLE_ENROL_TOKEN": "b" * 20}
    other = command("tokens", "--data", str(tmp_path), **given)
    assert json.loads(other.stdout) == {"admin": "a" * 20, "enrol": "b" * 20}
    assert "environment" in other.stderr


def failed(result, *words):
    assert result.returncode == 1
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    missing = [word for word in words if word not in result.stderr]
    assert not missing, result.stderr


def test_a_port_that_is_taken_and_a_host_that_is_not_here_are_explained(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        failed(command("run", "--data", str(tmp_path / "a"), "--port", port), port, "--port")
    failed(
        command("run", "--data", str(tmp_path / "b"), "--host", "203.0.113.1", "--port", "0"), "203.0.113.1", "--host"
    )
    failed(command("run", "--data", str(tmp_path / "c"), "--port", "99999"), "99999")


def test_tokens_that_are_too_short_stop_the_start(tmp_path):
    failed(command("run", "--data", str(tmp_path), "--port", "0", AURICLE_ADMIN_TOKEN="x"), "admin token", "16")


@pytest.mark.parametrize(
    ("url", "token", "words"),
    [
        ("127.0.0.1:8470", ADMIN, ["--url", "http://host:port"]),
        ("http://127.0.0.1:9", ADMIN, ["could not be sent", "http://127.0.0.1:9"]),
        ("http://127.0.0.1:9", None, ["--token", "AURICLE_ADMIN_TOKEN"]),
    ],
)
def test_a_public_set_that_cannot_be_sent(tmp_path, url, token, words):
    path = tmp_path / "public.safetensors"
    path.write_bytes(public_set().pack())
    failed(command("publish", str(path), "--url", url, *(["--token", token] if token else [])), *words)


def test_a_file_that_is_not_there_is_named(tmp_path):
    missing = command("publish", str(tmp_path / "none"), "--url", "http://127.0.0.1:9", "--token", ADMIN)
    failed(missing, str(tmp_path / "none"))


def test_an_idle_server_is_small(start_aggregator):
    assert start_aggregator().memory_mb() < 130


def test_a_ready_bundle_is_published_by_its_name(start_aggregator):
    aggregator = start_aggregator()
    options = ("--url", aggregator.url, "--token", ADMIN)
    with aggregator.client() as admin:
        assert admin.put("/v1/public-set", content=public_set().pack()).status_code == 200
    assert json.loads(command("publish-model", "cnn2", *options).stdout)["architecture"] == "cnn2"
    failed(command("publish-model", "cnn9", *options), "no ready bundle is called 'cnn9'", "ready: ann3, base")
