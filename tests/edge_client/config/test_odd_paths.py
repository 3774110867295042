"""A device whose folder has a name of any signs: all that it keeps is within it."""

import json

from edge_client.config import load_config
from edge_client.storage.device_state import DeviceState
from tests.support.edge_commands import EdgeCommands
from tests.support.sounds import write_clips

NAME = "a?b #c%20d &e='f\" g;h"


def test_a_device_is_set_up_and_taught_in_a_folder_of_any_name(tmp_path, capsys):
    edge = EdgeCommands(tmp_path / NAME, capsys)
    takes = edge.folder / NAME
    write_clips(takes, "stop", 2, seed=1)
    edge("init", "--alone", "--play", takes / "stop")
    assert edge("import", takes).count("2")
    (taught,) = json.loads(edge("clips", "--json"))["labels"]
    assert (taught["label"], taught["clips"]) == ("stop", 2)
    config = load_config(edge.config)
    assert config.microphone.file == takes / "stop"
    state = DeviceState(config.device.state)
    state.choices.set_threshold("stop", 0.5)
    assert DeviceState(config.device.state).choices.thresholds() == {"stop": 0.5}
    assert "nothing" in edge("events").lower()
    assert [path.name for path in tmp_path.iterdir()] == [NAME]
