"""The parts of `make test-home-assistant` that need no download."""

import inspect
import json

import yaml

from tests.home_assistant import core
from tests.home_assistant.checks import CHECKS
from tests.home_assistant.requirements import needed


class Loader(yaml.SafeLoader):
    """Reads the tags of Home Assistant's own."""


for tag in ("!input", "!include"):
    Loader.add_constructor(tag, lambda loader, node: loader.construct_scalar(node))


def test_its_settings_use_both_blueprints_and_all_that_these_ask_for(tmp_path):
    core.write_settings(tmp_path / "config", 8_123)
    settings = yaml.load((tmp_path / "config" / "configuration.yaml").read_text(), Loader)
    assert settings["http"] == {"server_host": "127.0.0.1", "server_port": 8_123}
    used = {}
    for automation in yaml.load((tmp_path / "config" / settings["automation"]).read_text(), Loader):
        blueprint = automation["use_blueprint"]
        path = tmp_path / "config" / "blueprints" / "automation" / blueprint["path"]
        inputs = yaml.load(path.read_text(), Loader)["blueprint"]["input"]
        needed_inputs = {name for name, one in inputs.items() if "default" not in one}
        assert needed_inputs <= set(blueprint["input"]) <= set(inputs)
        used[path.name] = path.read_text()
    assert used == {path.name: path.read_text() for path in core.BLUEPRINTS.glob("*.yaml")}


def test_what_integrations_ask_for_is_found_by_their_manifests(tmp_path):
    manifests = {
        "mqtt": {"requirements": ["paho-mqtt==2.1.0"], "dependencies": ["http", "loop"]},
        "http": {"requirements": ["b==1"]},
        "loop": {"dependencies": ["mqtt"]},
        "other": {"requirements": ["c==1"]},
    }
    for name, manifest in manifests.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text(json.dumps(manifest))
    assert needed(tmp_path, ["mqtt"]) == ["b==1", "paho-mqtt==2.1.0"]


def test_warnings_and_errors_about_the_device_are_found_in_a_log():
    log = (
        "2026-11-28 06:41:39.365 INFO (MainThread) [x] auricle\n"
        "\x1b[33m2026-11-28 06:41:39.365 WARNING (MainThread) [homeassistant.mqtt] binary_sensor.shelf_x\x1b[0m\n"
        "2026-11-28 06:41:39.365 ERROR (MainThread) [haffmpeg.tools] Error starting FFmpeg\n"
    )
    assert [line.split()[2] for line in core.complaints(log)] == ["WARNING"]


def test_each_check_says_what_must_hold():
    assert len({one.__name__ for one in CHECKS}) == len(CHECKS) > 10
    assert all(inspect.getdoc(one) for one in CHECKS)
