"""Reads an experiment's TOML file and checks it in full, before anything starts."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

import dacite

from aggregator_server.errors import AggregatorError
from edge_client.config.toml_lines import place
from edge_client.learning.methods.local_method import LocalMethod
from edge_client.learning.methods.registry import local_methods, shared_model_method
from fleet_protocol.bundle import read_bundle
from fleet_protocol.errors import ProtocolError
from fleet_simulator.errors import ExperimentError
from fleet_simulator.experiment.faults import FaultsSection
from fleet_simulator.experiment.sections import (
    DataSection,
    Experiment,
    FleetSection,
    ModelSection,
    RefusedKeyError,
    RoundsSection,
)


def load_experiment(path: Path) -> Experiment:
    """Read and check an experiment. Relative paths in it are relative to the file.

    Raises:
        ExperimentError: naming the file, the section, the key, the value and what is allowed.
    """
    document = read_document(path)
    kinds: dict[str, type[Any]] = {
        "data": DataSection, "fleet": FleetSection, "model": ModelSection, "rounds": RoundsSection,
        "faults": FaultsSection,
    }  # fmt: skip
    personalisation = document.pop("personalisation", {})
    if unknown := sorted(document.keys() - kinds.keys()):
        known = f"{', '.join(kinds)}, personalisation"
        raise ExperimentError(f"{line_of(path, unknown[0])}: unknown section [{unknown[0]}]; known: {known}")
    if missing := [name for name in kinds if name != "faults" and name not in document]:
        raise ExperimentError(f"{path}: the section [{missing[0]}] is missing; docs/simulator.md has an example")
    sections = {name: read_section(path, name, kind, document.get(name, {})) for name, kind in kinds.items()}
    try:
        experiment = Experiment(**sections, personalisation=_table(path, "personalisation", personalisation))
    except RefusedKeyError as error:
        raise ExperimentError(f"{line_of(path, 'faults', error.key)}: [faults] {error}") from error
    try:
        plan = experiment.rounds.plan
        _require_shared_model(experiment.rounds.strategy, plan.local.name)
    except (AggregatorError, ExperimentError) as error:
        key = error.key if isinstance(error, RefusedKeyError) else None
        raise ExperimentError(f"{line_of(path, 'rounds', key)}: [rounds] {error}") from error
    try:
        _require_personal(experiment, plan.local.name)
    except (ExperimentError, ProtocolError) as error:
        raise ExperimentError(f"{line_of(path, 'personalisation')}: [personalisation] {error}") from error
    try:
        _require_bundles(experiment.model, plan.local.name)
    except (ExperimentError, ProtocolError) as error:
        raise ExperimentError(f"{line_of(path, 'model')}: [model] {error}") from error
    return experiment


def read_document(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        ExperimentError: naming what is wrong with it.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ExperimentError(f"cannot read the experiment {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ExperimentError(f"{path} is not valid TOML: {error}") from error


def line_of(path: Path, name: str, key: str | None = None, nth: tuple[int, ...] = ()) -> str:
    """Return ``FILE, line N`` of a section, or of a key in it; see :func:`edge_client.config.toml_lines.place`."""
    return place(path, path.read_text(encoding="utf-8"), name, key, nth)


def read_section(
    path: Path,
    name: str,
    kind: type[Any],
    values: Any,  # noqa: ANN401  (what TOML holds)
    nth: tuple[int, ...] = (),
) -> Any:  # noqa: ANN401  (a section's class)
    """Return a section of an experiment as an object that has checked its values.

    Args:
        path: the file.
        name: of the section, as messages say it; its first word is what stands in the file.
        kind: the section's class.
        values: what the file has there.
        nth: of sections that are there more than once: which one, in each of the name's parts.

    Raises:
        ExperimentError: naming the file, the section, the key, the value and what is allowed.
    """
    section = name.split()[0]
    values = _table(path, name, values)
    known = [item.name for item in dataclasses.fields(kind)]
    for key in values:
        if key not in known:
            where = line_of(path, section, key, nth)
            raise ExperimentError(f"{where}: unknown key {key!r} in [{name}]; known: {', '.join(known)}")
    folder = path.resolve().parent
    hooks = {Path: lambda given: folder / Path(given).expanduser()}
    reals = {item.name for item in dataclasses.fields(kind) if item.type == "float"}
    values = {key: float(value) if key in reals and type(value) is int else value for key, value in values.items()}
    try:
        return dacite.from_dict(kind, values, dacite.Config(type_hooks=hooks, cast=[tuple]))
    except RefusedKeyError as error:
        raise ExperimentError(f"{line_of(path, section, error.key, nth)}: [{name}] {error}") from error
    except dacite.MissingValueError as error:
        where = line_of(path, section, nth=nth)
        raise ExperimentError(f"{where}: [{name}] needs the key {error.field_path!r}") from error
    except dacite.DaciteFieldError as error:
        key = (error.field_path or "").split(".")[0]
        where = line_of(path, section, key, nth)
        raise ExperimentError(f"{where}: [{name}] {key} = {values.get(key)!r} is of the wrong type: {error}") from error
    except (TypeError, ValueError) as error:
        raise ExperimentError(f"{line_of(path, section, nth=nth)}: [{name}] {error}") from error


def _table(path: Path, name: str, values: Any) -> dict[str, Any]:  # noqa: ANN401  (whatever the file has there)
    if not isinstance(values, dict):
        raise ExperimentError(f"{path}: [{name}] must be a section of keys, not {values!r}")
    return values


def _require_personal(experiment: Experiment, local: str) -> None:
    """Check the personalisation, and that it can be run.

    Raises:
        ExperimentError, ProtocolError: not so.
    """
    name = experiment.personal.name
    if name == "none":
        return
    if shared_model_method(local).keeps_own:
        raise ExperimentError(
            f"name = {name!r}: with {local} the devices have models of their own already; use the strategies fedavg, "
            "fedprox, fedmmd or fedopt"
        )
    if not experiment.fleet.held_out:
        raise ExperimentError(f"name = {name!r}: devices choose by clips of their own; give [fleet] held_out, say 0.4")


def _require_shared_model(strategy: str, local: str) -> None:
    if not isinstance(local_methods()[local], LocalMethod):
        known = sorted(name for name, method in local_methods().items() if isinstance(method, LocalMethod))
        raise ExperimentError(
            f"strategy = {strategy!r}: the simulator runs strategies that share a model, with the local methods "
            f"{', '.join(known)}"
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
