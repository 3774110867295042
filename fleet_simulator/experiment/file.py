"""Reads an experiment's TOML file and checks it in full, before anything starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from aggregator_server.errors import AggregatorError
from edge_client.learning.methods.registry import shared_model_method, shared_model_methods
from edge_client.learning.personalisations.registry import personalisations
from fleet_protocol.bundle import read_bundle
from fleet_protocol.errors import ProtocolError
from fleet_protocol.toml_sections import TomlFile
from fleet_simulator.errors import ExperimentError
from fleet_simulator.experiment.changes import apply_changes
from fleet_simulator.experiment.faults import FaultsSection
from fleet_simulator.experiment.sections import (
    BaselinesSection,
    DataSection,
    Experiment,
    FleetSection,
    ModelSection,
    RefusedKeyError,
    RoundsSection,
)
from fleet_simulator.experiment.upload_memory import require_memory

Source = Path | Mapping[str, Any]

_OPTIONAL = ("faults", "baselines")


def load_experiment(experiment: Source, changes: Sequence[str] = ()) -> Experiment:
    """Read and check an experiment. Relative paths in it are relative to the file, or to the working directory.

    Args:
        experiment: path of the file, or what it would hold.
        changes: of its settings (:func:`apply_changes`).

    Raises:
        ExperimentError: naming the file, the section, the key, the value and what is allowed.
    """
    file = read_toml(experiment, changes)
    document = file.document
    kinds: dict[str, type[Any]] = {
        "data": DataSection,
        "fleet": FleetSection,
        "model": ModelSection,
        "rounds": RoundsSection,
        "faults": FaultsSection,
        "baselines": BaselinesSection,
    }
    file.require_known((*kinds, "personalisation"))
    if missing := [name for name in kinds if name not in (*_OPTIONAL, *document)]:
        raise ExperimentError(f"{file.path}: the section [{missing[0]}] is missing; docs/simulator.md has an example")
    sections = {name: file.section(name, kind, document[name]) for name, kind in kinds.items() if name in document}
    personalisation = file.table("personalisation", document.get("personalisation", {}))
    try:
        found = Experiment(**sections, personalisation=personalisation)
    except RefusedKeyError as error:
        raise ExperimentError(f"{file.place('faults', error.key)}: [faults] {error}") from error
    try:
        plan = found.rounds.plan
        _require_shared_model(found.rounds.strategy, plan.local.name)
    except (AggregatorError, ExperimentError) as error:
        key = error.key if isinstance(error, RefusedKeyError) else None
        raise ExperimentError(f"{file.place('rounds', key)}: [rounds] {error}") from error
    try:
        _require_personal(found, plan.local.name)
    except (ExperimentError, ProtocolError) as error:
        raise ExperimentError(f"{file.place('personalisation')}: [personalisation] {error}") from error
    if found.baselines is not None and not found.fleet.held_out:
        raise ExperimentError(
            f"{file.place('baselines')}: [baselines] are evaluated on clips of devices; give [fleet] held_out, say 0.4"
        )
    try:
        _require_bundles(found.model, plan.local.name)
    except (ExperimentError, ProtocolError) as error:
        raise ExperimentError(f"{file.place('model')}: [model] {error}") from error
    try:
        require_memory(found, read_bundle(found.model.bundle).manifest)
    except ExperimentError as error:
        raise ExperimentError(f"{file.place('rounds')}: [rounds] {error}") from error
    return found


def read_toml(experiment: Source, changes: Sequence[str] = ()) -> TomlFile:
    """Read an experiment's file, or take what it would hold, with changes to it.

    Raises:
        ExperimentError: naming what is wrong with it.
    """
    if isinstance(experiment, Path):
        file = TomlFile.read(experiment, "experiment", ExperimentError)
    else:
        file = TomlFile(Path("experiment"), "", deepcopy(dict(experiment)), ExperimentError)
    apply_changes(file.document, changes)
    return file


def _require_personal(experiment: Experiment, local: str) -> None:
    """Check the personalisation, and that it can be run.

    Raises:
        ExperimentError, ProtocolError: not so.
    """
    name = experiment.personal.name
    if name == "none":
        return
    if personalisations()[name].groups and shared_model_method(local).any_architecture:
        raise ExperimentError(
            f"name = {name!r}: with {local} the devices have models of their own, which no group shares; use 'local'"
        )
    if not experiment.fleet.held_out:
        raise ExperimentError(f"name = {name!r}: devices choose by clips of their own; give [fleet] held_out, say 0.4")


def _require_shared_model(strategy: str, local: str) -> None:
    known = shared_model_methods()
    if local not in known:
        raise ExperimentError(
            f"strategy = {strategy!r}: the simulator runs strategies that share a model, with the local methods "
            f"{', '.join(sorted(known))}"
        )


def _require_bundles(model: ModelSection, local: str) -> None:
    """Check that the bundles can be read, and that the devices' own models go with the method.

    Raises:
        ExperimentError, BundleError, FeatureMismatchError: not so.
    """
    shared = read_bundle(model.bundle).manifest
    for path in model.own:
        own = read_bundle(path).manifest
        if not shared_model_method(local).any_architecture and own.weight_shapes != shared.weight_shapes:
            raise ExperimentError(
                f"own = {path}: {local} needs the fleet's bundle on every device; leave 'own' out, or use the "
                "strategy 'fedmlac', which takes any architecture"
            )
        own.feature_settings.require_same(shared.feature_settings, str(path), f"the shared model ({model.bundle})")
