"""A virtual fleet does what a real one does, whatever the number of workers, and however often it is killed."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aggregator_server.aggregation.contract import Contribution, RoundInputs, SharedModel
from aggregator_server.strategies.plans import strategy as chosen
from edge_client.learning.methods.local_method import local_methods
from edge_client.learning.rounds.client_update import RoundContext
from edge_client.learning.rounds.weight_sharing import WeightSharing
from edge_client.learning.training_data import Clips
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.messages.rest import Work
from fleet_simulator.errors import RunFolderError, WorkerError
from fleet_simulator.experiment.file import load
from fleet_simulator.runs.inputs import Inputs
from fleet_simulator.runs.run_folder import STATE, locked, read_state
from fleet_simulator.simulation.dealt_fleet import DealtFleet
from fleet_simulator.simulation.tasks import device_id
from tests.support.checkout import ROOT, run_module
from tests.support.edge_process import wait_for
from tests.support.simulated_fleet import left_in, simulate, write_experiment


def state_bytes(folder):
    return (folder / STATE).read_bytes()


def real_upload(bundle, simulation, plan, round_id, number, weights):
    """What a device's own code makes of a virtual device's clips, from the fleet's weights."""
    shards, public = simulation.shards, simulation.first.public_set
    label_map = LabelMap(bundle.manifest.capacity)
    for info in public.classes:
        label_map = label_map.add(info.name, info.class_id)
    work = Work(
        kind="contribute", round_id=round_id, plan=plan, public_set="0" * 64, consensus=None, classes=public.classes
    )
    shared, first = replace(bundle, weights=weights), round_id == 1
    context = RoundContext(public, None, shared, trained=not first, first=first)
    job = WeightSharing(
        local_methods()[plan.local.name],
        ModelRuntime(bundle),
        label_map,
        replace(work, model="1" * 64),
        context,
        device_id(number),
        ModelRuntime(shared),
    )
    mine = shards.rows(number)
    return job.contribute(Clips(shards.features(mine)[None], shards.labels(mine)), share_names=False)


@pytest.mark.parametrize(
    ("strategy", "aggregation"),
    [("fedavg", {}), ("fedprox", {"clip_norm": 0.3, "server_optimiser": "adam"}), ("fedmlac", {"name": "lpa"})],
)
def test_a_round_is_what_devices_and_aggregator_make_of_the_same_clips(tmp_path, bundles, strategy, aggregation):
    # With fedmlac the devices' own models go on, so one round is compared.
    count = 1 if strategy == "fedmlac" else 2
    rounds = {"strategy": strategy, "aggregation": aggregation, "count": count}
    path = write_experiment(tmp_path / "e.toml", bundles["ann3"], rounds=rounds, data={"public": 0.2})
    experiment = load(path)
    simulate(experiment, tmp_path / "run")
    found = left_in(tmp_path / "run", "weights")
    simulation = DealtFleet(experiment, tmp_path / "run")
    bundle, devices = read_bundle(bundles["ann3"]), range(simulation.shards.devices)
    weights, state, plan = bundle.weights, {}, experiment.plan
    for round_id in range(1, count + 1):
        uploads = [real_upload(bundle, simulation, plan, round_id, n, weights) for n in devices]
        inputs = RoundInputs(
            round_id=round_id,
            plan=plan,
            public_set=simulation.first.public_set,
            consensus=np.zeros((0, 0), np.float32),
            contributions=tuple(Contribution(update, lambda arrays=arrays: arrays) for update, arrays in uploads),
            model=SharedModel(bundle.manifest, weights, state),
            has_consensus=False,
        )
        result = chosen(experiment.rounds.strategy).aggregate(inputs)
        weights, state = result.weights, result.state
    for name, array in weights.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=2e-6, err_msg=name)


@pytest.mark.parametrize(
    "rounds",
    [
        {"selection": {"name": "uniform", "fraction": 0.6}},
        {"strategy": "fedkws_ui", "local": {"steps": 2, "private_epochs": 1}, "aggregation": {"name": "median"}},
    ],
)
def test_the_result_does_not_depend_on_the_number_of_workers(tmp_path, bundles, rounds):
    experiment = load(write_experiment(tmp_path / "e.toml", bundles["ann3"], rounds=rounds))
    none, one, three = (simulate(experiment, tmp_path / str(count), count) for count in (0, 1, 3))
    assert none.rounds == one.rounds == three.rounds
    for name in (STATE, "result.json"):
        assert len({(tmp_path / count / name).read_bytes() for count in "013"}) == 1
    other = {"rounds": {"seed": 6, "local": {}, **rounds}}
    simulate(load(write_experiment(tmp_path / "e.toml", bundles["ann3"], **other)), tmp_path / "other")
    assert state_bytes(tmp_path / "1") != state_bytes(tmp_path / "other")


def killed_run(experiment, folder, after):
    """Start a run in a session of its own, and kill its main process once some rounds are done."""
    command = [sys.executable, "-m", "fleet_simulator.cli", "run", experiment, "--output", folder, "--workers", "2"]
    quiet = {"stderr": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    process = subprocess.Popen(list(map(str, command)), cwd=ROOT, start_new_session=True, **quiet)
    digest = load(experiment).digest

    def rounds():
        assert process.poll() is None
        state = read_state(folder, digest)
        return 0 if state is None else len(state[1]["rounds"])

    wait_for(lambda: rounds() >= after, 300, f"{after} rounds")
    process.kill()
    process.wait()
    return process.pid, len(read_state(folder, digest)[1]["rounds"])


def members(session: int) -> list[str]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(stat.parent.name)
    return found


@pytest.mark.slow
def test_a_killed_run_goes_on_from_its_last_finished_round_to_the_same_bytes(tmp_path, bundles):
    rounds = {"strategy": "fedkws_ui", "local": {"steps": 2, "private_epochs": 1}}

    def write(count):
        return write_experiment(tmp_path / "e.toml", bundles["ann3"], rounds={"count": count, **rounds})

    path = write(100_000)  # more than are done before a kill, however late that comes
    main_process, first = killed_run(path, tmp_path / "run", 3)
    wait_for(lambda: not members(main_process), what="the end of the workers, by themselves")
    _, second = killed_run(path, tmp_path / "run", first + 3)
    assert first < second
    write(second + 20)
    done = run_module("fleet_simulator.cli", "run", path, "--workers", "2", "--output", tmp_path / "run")
    assert done.returncode == 0
    assert f"going on after round {second} of {second + 20}" in done.stderr
    simulate(load(path), tmp_path / "whole", 2)
    for name in (STATE, "result.json"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_folder_in_which_a_run_is_on_or_that_is_another_experiment_s_is_refused(tmp_path, bundles):
    experiment = load(write_experiment(tmp_path / "e.toml", bundles["ann3"]))
    folder = tmp_path / "run"
    folder.mkdir()
    with (
        locked(folder),
        pytest.raises(RunFolderError, match=rf"in use by the run of process {os.getpid()}; .*--output"),
    ):
        simulate(experiment, folder)
    simulate(experiment, folder)
    before = state_bytes(folder)
    other = write_experiment(tmp_path / "e.toml", bundles["ann3"], data={"noise": 0.7})
    with pytest.raises(RunFolderError, match=r"another experiment.*--output"):
        simulate(load(other), folder)
    assert state_bytes(folder) == before


def test_runs_that_share_their_inputs_have_the_results_of_runs_that_do_not(tmp_path, bundles):
    inputs = Inputs()
    for number, seed in enumerate((5, 6, 5)):
        rounds = {"seed": seed, "strategy": "fedmlac", "aggregation": {"name": "median"}}
        path = write_experiment(tmp_path / "e.toml", bundles["ann3"], rounds=rounds)
        simulate(load(path), tmp_path / f"shared-{number}", 0, inputs)
    simulate(load(path), tmp_path / "alone")
    assert state_bytes(tmp_path / "shared-0") == state_bytes(tmp_path / "shared-2") == state_bytes(tmp_path / "alone")
    assert state_bytes(tmp_path / "shared-1") != state_bytes(tmp_path / "alone")


def test_a_training_that_diverges_names_the_device_and_the_setting(tmp_path, bundles):
    rounds = {"local": {"learning_rate": 10.0, "epochs": 200}}
    path = write_experiment(tmp_path / "e.toml", bundles["ann3"], rounds=rounds, data={"noise": 9.0})
    with pytest.raises(WorkerError, match=r"device \d+: round \d: the training diverged .*learning_rate, now 10"):
        simulate(load(path), tmp_path / "run")
