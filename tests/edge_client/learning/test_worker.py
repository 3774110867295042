"""The training process: what it is asked for, and with what it does it."""

import pytest

from aggregator_server.strategies.registry import complete
from edge_client.clips.public_set import build_public_set
from edge_client.config import load_config
from edge_client.learning.training_job import from_line
from edge_client.learning.worker import run
from edge_client.model import runtime
from edge_client.storage.device_state import DeviceState
from fleet_protocol.atomic_files import write_durably
from fleet_protocol.errors import MessageError
from fleet_protocol.feature_settings import PRESETS
from fleet_protocol.messages import Choice, ClassInfo, RoundPlan, Work
from fleet_protocol.tensors import digest
from tests.support.sounds import write_clips

FAST = {"epochs": 1, "augmented_copies": 0}


def plan(method):
    return RoundPlan(
        local=complete("local", Choice(method, FAST)),
        aggregation=complete("aggregation", Choice("weighted_mean")),
        selection=complete("selection", Choice("all")),
        deadline_s=60.0,
        quorum=1.0,
        seed=1,
    )


@pytest.fixture
def device(tmp_path, bundles):
    """A device with four threads, clips of two labels, a public set and the fleet's model in its cache."""
    path = tmp_path / "edge.toml"
    path.write_text(f'[device]\nname = "shelf"\nstate = "state"\nthreads = 4\n[model]\nbundle = "{bundles["cnn1"]}"\n')
    config = load_config(path)
    state = DeviceState(config.device.state)
    for label in ("yes", "no"):
        write_clips(config.clips_folder, label, 4, seed=1)
        write_clips(tmp_path / "public", label, 3, seed=2)
    public = build_public_set(tmp_path / "public", PRESETS["gudur"], ["yes", "no"], 3).pack()
    blobs = {"public_set": public, "model": bundles["cnn1"].read_bytes()}
    for data in blobs.values():
        write_durably(state.blobs.path(digest(data)), data)
    classes = (ClassInfo("yes", "yes"), ClassInfo("no", "no"))
    work = Work(
        kind="contribute",
        round_id=1,
        plan=plan("fedavg"),
        public_set=digest(public),
        consensus=None,
        classes=classes,
        model=digest(blobs["model"]),
    )
    return config, work


@pytest.mark.parametrize("line", ["", "no JSON\n", "[]\n", '{"kind": "dance"}\n'])
def test_a_line_that_is_no_job_is_refused(line):
    with pytest.raises(MessageError):
        from_line(line)


def test_the_own_model_and_the_shared_one_get_the_configured_number_of_threads(device, monkeypatch):
    config, work = device
    opened, open_graph = [], runtime.open_graph

    def noted(graph, threads):
        opened.append(threads)
        return open_graph(graph, threads)

    monkeypatch.setattr(runtime, "open_graph", noted)
    run(config, work)
    assert opened == [4, 4]
