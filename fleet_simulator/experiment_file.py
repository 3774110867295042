"""Reads an experiment's TOML file and checks it in full, before anything starts."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

import dacite

from aggregator_server.errors import AggregatorError
from edge_client.learning.shared_methods import SHARED_METHODS
from fleet_protocol.bundle import read_bundle
from fleet_protocol.errors import ProtocolError
from fleet_simulator.errors import ExperimentError
from fleet_simulator.experiment import (
    DataSection,
    Experiment,
    FleetSection,
    ModelSection,
    RefusedKeyError,
    RoundsSection,
)
from fleet_simulator.faults import FaultsSection


def load_experiment(path: Path) -> Experiment:
    """Read and check an experiment. Relative paths in it are relative to the file.

    Raises:
        ExperimentError: naming the file, the section, the key, the value and what is allowed.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ExperimentError(f"cannot read the experiment {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ExperimentError(f"{path} is not valid TOML: {error}") from error
    kinds: dict[str, type[Any]] = {
        "data": DataSection, "fleet": FleetSection, "model": ModelSection, "rounds": RoundsSection,
        "faults": FaultsSection,
    }  # fmt: skip
    if unknown := sorted(document.keys() - kinds.keys()):
        raise ExperimentError(f"{path}: unknown section [{unknown[0]}]; known: {', '.join(kinds)}")
    if missing := [name for name in kinds if name != "faults" and name not in document]:
        raise ExperimentError(f"{path}: the section [{missing[0]}] is missing; docs/simulator.md has an example")
    sections = {name: _section(path, name, kind, document.get(name, {})) for name, kind in kinds.items()}
    try:
        experiment = Experiment(**sections)
    except RefusedKeyError as error:
        raise ExperimentError(f"{path}: [faults] {error}") from error
    try:
        plan = experiment.rounds.plan
        _require_shared_model(experiment.rounds.strategy, plan.local.name)
    except (AggregatorError, ExperimentError) as error:
        raise ExperimentError(f"{path}: [rounds] {error}") from error
    try:
        _require_bundles(experiment.model, plan.local.name)
    except (ExperimentError, ProtocolError) as error:
        raise ExperimentError(f"{path}: [model] {error}") from error
    return experiment


def _section(path: Path, name: str, kind: type[Any], values: Any) -> Any:  # noqa: ANN401  (a section's class)
    if not isinstance(values, dict):
        raise ExperimentError(f"{path}: [{name}] must be a section of keys, not {values!r}")
    known = [item.name for item in dataclasses.fields(kind)]
    for key in values:
        if key not in known:
            raise ExperimentError(f"{path}: unknown key {key!r} in [{name}]; known: {', '.join(known)}")
    folder = path.resolve().parent
    hooks = {Path: lambda given: folder / Path(given).expanduser()}
    reals = {item.name for item in dataclasses.fields(kind) if item.type == "float"}
    values = {key: float(value) if key in reals and type(value) is int else value for key, value in values.items()}
    try:
        return dacite.from_dict(kind, values, dacite.Config(type_hooks=hooks, cast=[tuple]))
    except RefusedKeyError as error:
        raise ExperimentError(f"{path}: [{name}] {error}") from error
    except dacite.MissingValueError as error:
        raise ExperimentError(f"{path}: [{name}] needs the key {error.field_path!r}") from error
    except dacite.DaciteFieldError as error:
        key = (error.field_path or "").split(".")[0]
        raise ExperimentError(f"{path}: [{name}] {key} = {values.get(key)!r} is of the wrong type: {error}") from error
    except (TypeError, ValueError) as error:
        raise ExperimentError(f"{path}: [{name}] {error}") from error


def _require_shared_model(strategy: str, local: str) -> None:
    if local not in SHARED_METHODS:
        raise ExperimentError(
            f"strategy = {strategy!r}: the simulator runs strategies that share a model, with the local methods "
            f"{', '.join(sorted(SHARED_METHODS))}"
        )


def _require_bundles(model: ModelSection, local: str) -> None:
    """Check that the bundles can be read, and that the devices' own models go with the method.

    Raises:
        ExperimentError, BundleError, FeatureMismatchError: not so.
    """
    shared = read_bundle(model.bundle).manifest
    for path in model.own:
        own = read_bundle(path).manifest
        if not SHARED_METHODS[local].any_architecture and own.weight_shapes != shared.weight_shapes:
            raise ExperimentError(
                f"own = {path}: {local} needs the fleet's bundle on every device; leave 'own' out, or use the "
                "strategy 'mutual', which takes any architecture"
            )
        own.feature_settings.require_same(shared.feature_settings, str(path), f"the shared model ({model.bundle})")
