"""The app for Home Assistant, as far as it can be checked without an engine: its files, and its programs."""

import asyncio
import json
import os
import re
import runpy
import signal
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import httpx
import pytest
import yaml
from wyoming.client import AsyncClient
from wyoming.info import Describe, Info

from edge_client.config import load_config
from fleet_protocol.bundle.ready_bundles import FIRST_CHOICE
from tests.support.checkout import ROOT
from tests.support.desk import free_port
from tests.support.edge_process import wait_for
from tests.support.ingress import ADDRESS, Ingress
from tests.support.sound_server import no_sound_devices
from tests.support.supervisor import TOKEN, UUID, Supervisor

REPOSITORY = ROOT / "home-assistant"
APP = REPOSITORY / "auricle"
sys.path.append(str(APP))  # as of a program in this folder
RUN = runpy.run_path(str(APP / "run.py"))


def read(name):
    return yaml.safe_load((APP / name).read_text())


@pytest.fixture(scope="module")
def app():
    return read("config.yaml")


def test_the_repository_and_the_app_are_described_as_home_assistant_reads_it(app):
    assert yaml.safe_load((REPOSITORY / "repository.yaml").read_text())["name"] == "Auricle"
    assert app["slug"] == APP.name
    assert app["version"] == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert app["version"] in (APP / "CHANGELOG.md").read_text()
    for name in ("README.md", "DOCS.md", "Dockerfile"):
        assert (APP / name).read_text()


# Of the keys that the Supervisor gives a default: what states it says nothing.
DEFAULTS = {
    "startup": "application",
    "boot": "auto",
    "init": True,
    "stage": "stable",
    "ingress_port": 8099,
    "ingress_stream": False,
    "panel_icon": "mdi:puzzle",
    "panel_admin": True,
    "backup": "hot",
    "timeout": 10,
    "audio": False,
    "ingress": False,
    "apparmor": True,
    "hassio_role": "default",
}
KNOWN = {"name", "version", "slug", "description", "arch", "map", "ports", "services", "discovery", "options", "schema"}
OBSOLETE = {"watchdog", "webui", "advanced", "auto_uart", "codenotary", "backup_pre", "backup_post"}


def test_the_description_keeps_the_rules_of_home_assistants_linter(app):
    assert not {key for key, value in app.items() if key in DEFAULTS and value == DEFAULTS[key]}
    assert app.keys() <= KNOWN | DEFAULTS.keys()
    assert not OBSOLETE & app.keys()
    assert set(app["arch"]) <= {"aarch64", "amd64"}  # no other one is supported any more
    assert app["services"] == ["mqtt:want"]
    assert app["discovery"] == ["wyoming"]
    assert all(folder.keys() <= {"type", "read_only", "path"} for folder in app["map"])


def test_each_option_has_a_value_or_may_be_left_out_and_a_text_in_each_language(app):
    optional = {name for name, kind in app["schema"].items() if kind.endswith("?")}
    assert app["options"].keys() == app["schema"].keys() - optional
    for language in ("en", "de"):
        texts = read(f"translations/{language}.yaml")
        assert texts["configuration"].keys() == app["schema"].keys()
        assert texts["network"].keys() == app["ports"].keys()
        for text in texts["configuration"].values():
            assert text.keys() == {"name", "description"}


def test_the_image_is_built_of_what_make_puts_there(app):
    lines = re.sub(r"\\\n\s*", "", (APP / "Dockerfile").read_text()).splitlines()
    assert [line.split()[1] for line in lines if line.startswith("FROM")] == ["python:3.11-slim-bookworm"] * 2
    for line in lines:
        if line.startswith("COPY") and "--from" not in line:
            for name in line.split()[1:-1]:
                assert name in ("auricle-*.whl", "constraints.txt") or (APP / name).exists()
    programs = {path.name for path in APP.glob("*.py")}
    assert programs <= {name for line in lines if line.startswith("COPY") for name in line.split()}
    (recipe,) = re.findall(r"^home-assistant:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert "--wheel-dir dist/home-assistant/auricle" in recipe
    assert "cp constraints.txt dist/home-assistant/auricle" in recipe


def test_the_programs_use_the_ports_and_the_address_that_home_assistant_knows(app):
    said = subprocess.run([sys.executable, APP / "run.py", "--help"], capture_output=True, text=True, check=True).stdout
    assert f"({app.get('ingress_port', DEFAULTS['ingress_port'])})" in said
    assert "(172.30.32.2)" in said
    assert "tcp://0.0.0.0:10400" in said
    assert RUN["_PATIENCE_S"] < app["timeout"]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"mqtt_host": "core-mosquitto", "mqtt_port": 1884, "mqtt_username": "auricle", "mqtt_password": "p"},
        {"name": 'Küche "oben"\\\n\x7f[ui]', "bundle": "sounds_2s", "false_accepts_per_hour": 3},
    ],
)
def test_options_become_a_configuration_in_which_no_option_is_more_than_a_value(app, tmp_path, given):
    options = app["options"] | given
    with Supervisor() as supervisor:
        broker = RUN["broker_of"](options, RUN["Supervisor"](supervisor.url, TOKEN))
    (tmp_path / "edge.toml").write_text(RUN["configuration"](options, tmp_path, "172.30.32.2", 8099, broker))
    config = load_config(tmp_path / "edge.toml")
    assert config.device.name == options["name"]
    assert config.device.state == tmp_path / "state"
    assert config.model.bundle.stem == options.get("bundle", FIRST_CHOICE)
    assert config.detector.false_accepts_per_hour == options["false_accepts_per_hour"]
    assert (config.ui.proxy, config.ui.port) == ("172.30.32.2", 8099)
    if "mqtt_host" in given:
        mqtt = config.mqtt
        assert (mqtt.host, mqtt.port, mqtt.username, mqtt.password) == ("core-mosquitto", 1884, "auricle", "")
    else:
        assert config.mqtt is None


BROKER = {"host": "core-mosquitto", "port": 1883, "ssl": False, "username": "addons", "password": "secret words"}


@pytest.mark.parametrize(
    ("known", "token", "given", "used"),
    [
        (BROKER, TOKEN, {}, {key: BROKER[key] for key in ("host", "port", "username", "password")}),
        ({"host": "b", "port": 8883, "ssl": True}, TOKEN, {}, {"host": "b", "port": 8883, "tls": True}),
        (BROKER, TOKEN, {"mqtt_host": "own", "mqtt_password": "p"}, {"host": "own", "password": "p"}),
        (None, TOKEN, {}, "Service not enabled"),
        (BROKER, "another", {}, "unauthorized"),
        ({}, TOKEN, {}, "names no host"),
    ],
)
def test_the_broker_is_the_options_else_home_assistants_own(app, tmp_path, capsys, known, token, given, used):
    with Supervisor(known) as supervisor:
        broker = RUN["broker_of"](app["options"] | given, RUN["Supervisor"](supervisor.url, token))
    if isinstance(used, dict):
        assert broker == used
        (tmp_path / "edge.toml").write_text(RUN["configuration"](app["options"], tmp_path, "", 8099, broker))
        mqtt = load_config(tmp_path / "edge.toml").mqtt
        assert (mqtt.host, mqtt.tls, mqtt.password) == (used["host"], used.get("tls", False), "")
    else:
        assert broker == {}
        said = capsys.readouterr().out
        assert "Install the app Mosquitto" in said
        assert used in said


def test_a_supervisor_that_is_not_there_keeps_nothing_from_running(app, capsys):
    assert RUN["broker_of"](app["options"], RUN["Supervisor"](f"http://127.0.0.1:{free_port()}", TOKEN)) == {}
    assert "nothing is published" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("learned", "given", "used"),
    [
        (None, {}, FIRST_CHOICE),
        (None, {"bundle": "sounds"}, "sounds"),
        ("base", {}, "base"),  # a release before began with it, and nobody saved the options
        ("base", {"bundle": "words"}, "words"),
        ("/share/own.auricle", {}, "/share/own.auricle"),
    ],
)
def test_without_the_option_a_device_keeps_the_bundle_that_it_has_learned_with(app, tmp_path, learned, given, used):
    (tmp_path / "edge.toml").write_text(
        RUN["configuration"]({**app["options"], "bundle": learned or "base"}, tmp_path, "", 1, {})
    )
    if learned:
        (tmp_path / "state").mkdir()
        (tmp_path / "state" / "model.safetensors").touch()
    text = RUN["configuration"](app["options"] | given, tmp_path, "", 1, {})
    assert tomllib.loads(text)["model"] == {"bundle": used}


UNUSABLE = [("options.json", text, "options.json cannot be used") for text in (None, "{", "{}", "[]")]
UNUSABLE += [("edge.toml", text, "choose the bundle in the options") for text in (None, "[model", "[model]\n")]


@pytest.mark.parametrize(("name", "text", "said"), UNUSABLE)
def test_a_file_that_cannot_be_used_is_named_and_left_as_it_is(app, tmp_path, name, text, said):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "model.safetensors").touch()
    files = {"options.json": json.dumps(app["options"]), "edge.toml": None} | {name: text}
    for file, content in files.items():
        if content is not None:
            (tmp_path / file).write_text(content)
    nowhere = f"http://127.0.0.1:{free_port()}"
    command = [sys.executable, APP / "run.py", "--data", tmp_path, "--supervisor", nowhere]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert said in done.stdout
    assert (tmp_path / "edge.toml").exists() == (files["edge.toml"] is not None)


class Running:
    """The app's programs in a folder, on a machine without sound devices."""

    def __init__(self, folder, options, supervisor):
        self.folder, self.port = folder, free_port()
        (folder / "options.json").write_text(json.dumps(options))
        self.wyoming = f"tcp://127.0.0.1:{free_port()}"
        places = ["--data", folder, "--proxy", ADDRESS, "--port", str(self.port), "--wyoming", self.wyoming]
        places += ["--supervisor", supervisor.url]
        with (folder / "log").open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, APP / "run.py", *places],
                cwd=ROOT,
                env=os.environ | no_sound_devices(folder) | {"PYTHONPATH": str(ROOT), "SUPERVISOR_TOKEN": TOKEN},
                stdout=log,
                stderr=log,
            )

    def log(self):
        return (self.folder / "log").read_text()

    def children(self):
        return Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()

    def is_healthy(self):
        """What the image's own check says."""
        lines = re.sub(r"\\\n\s*", "", (APP / "Dockerfile").read_text()).splitlines()
        (check,) = (line for line in lines if line.startswith("HEALTHCHECK"))
        python, *words = json.loads(check[check.index("[") :])
        assert python == "python"
        command = [sys.executable, *(word.replace("8099", str(self.port)) for word in words)]
        return subprocess.run(command, capture_output=True).returncode == 0

    def is_answered(self, url):
        try:
            return httpx.get(url, timeout=180).status_code == 200
        except httpx.HTTPError:
            return False


async def offered(uri):
    async with AsyncClient.from_uri(uri) as client:
        await client.write_event(Describe().event())
        return Info.from_event(await client.read_event()).wake[0].models


@pytest.fixture
def supervisor():
    with Supervisor(BROKER) as one:
        yield one


@pytest.fixture
def running(app, tmp_path, supervisor):
    one = Running(tmp_path, app["options"] | {"wake_words": True}, supervisor)
    yield one
    if one.process.poll() is None:
        one.process.send_signal(signal.SIGTERM)
        one.process.wait(180)


@pytest.mark.slow
def test_daemon_page_and_wake_words_start_and_end_together(running, supervisor):
    with Ingress(running.port) as home_assistant:
        wait_for(lambda: running.is_answered(home_assistant.url), what="the page through Home Assistant")
        assert httpx.get(f"http://127.0.0.1:{running.port}/", timeout=180).status_code == 403
        wait_for(running.is_healthy, what="a page that answers in time")
        status = f"{home_assistant.url}status"
        wait_for(lambda: httpx.get(status, timeout=180).json()["running"], what="a daemon that runs")
    wait_for((running.folder / "discovery").exists, what="the wake words' offer")
    assert asyncio.run(offered(running.wyoming)) == []  # it was taught nothing yet
    port = running.wyoming.rpartition(":")[2]
    offer = {"service": "wyoming", "config": {"uri": f"tcp://{socket.gethostname()}:{port}"}}
    assert supervisor.asked == [("GET", "/services/mqtt", None), ("POST", "/discovery", offer)]
    assert 'host = "core-mosquitto"' in (running.folder / "edge.toml").read_text()
    assert "secret words" not in (running.folder / "edge.toml").read_text() + running.log()
    assert len(running.children()) == 3
    for child in running.children():
        environment = Path(f"/proc/{child}/environ").read_bytes()
        assert b"AURICLE_MQTT_PASSWORD=secret words" in environment
        assert TOKEN.encode() not in environment
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(180) == 0, running.log()
    assert "Traceback" not in running.log()
    assert not running.is_healthy()


@pytest.mark.slow
def test_wake_words_that_are_switched_off_are_not_offered_any_more(app, tmp_path, supervisor):
    (tmp_path / "discovery").write_text(UUID)
    running = Running(tmp_path, app["options"], supervisor)
    wait_for(lambda: len(supervisor.asked) == 2, what="that the offer is taken back")
    wait_for(running.is_healthy, what="its programs, the page the last of them")
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(180) == 0, running.log()
    assert supervisor.asked[1] == ("DELETE", f"/discovery/{UUID}", None)
    assert not (tmp_path / "discovery").exists()


@pytest.mark.slow
def test_where_one_program_ends_all_do_and_home_assistant_is_told(running):
    with Ingress(running.port) as home_assistant:
        wait_for(lambda: running.is_answered(home_assistant.url), what="the page through Home Assistant")
    children = running.children()
    page = next(pid for pid in children if b"\0ui\0" in Path(f"/proc/{pid}/cmdline").read_bytes())
    os.kill(int(page), signal.SIGKILL)
    assert running.process.wait(180) == 1
    assert "`auricle-edge ui` ended" in running.log()
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children), what="the end of all others")
