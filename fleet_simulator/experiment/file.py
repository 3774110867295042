"""Reads an experiment's TOML file and checks it in full, before anything starts."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

from aggregator_server.errors import AggregatorError
from edge_client.learning.methods.local_method import LocalMethod
from edge_client.learning.personalisation import personalisations
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.errors import ProtocolError
from fleet_protocol.ground.toml_sections import TomlFile
from fleet_simulator.errors import ExperimentError, RefusedKeyError
from fleet_simulator.experiment.changes import apply_changes
from fleet_simulator.experiment.faults import ATTACKS, UNSHARED_ATTACKS, FaultsSection
from fleet_simulator.experiment.local_kinds import is_prototypes, method_of, require_memory
from fleet_simulator.experiment.sections import (
    AnyExperiment,
    BaselinesSection,
    DataSection,
    EventSection,
    Experiment,
    FleetSection,
    ModelSection,
    RoundsSection,
    UserSection,
    ZeroShotExperiment,
    ZeroShotSection,
)
from fleet_simulator.plugins import Plugin

SCORES = "zero_shot"
"""Strategy of an experiment whose users each have a section."""

_COMMON: dict[str, type[Any]] = {"data": DataSection, "rounds": RoundsSection, "faults": FaultsSection}
_FLEET = _COMMON | {"fleet": FleetSection, "model": ModelSection, "baselines": BaselinesSection}
_USERS = _COMMON | {"zero_shot": ZeroShotSection}


def load(
    experiment: Path | Mapping[str, Any], changes: Sequence[str] = (), plugins: tuple[Plugin, ...] = ()
) -> AnyExperiment:
    """Read and check an experiment of either kind, from its file or what that would hold, with changes to it.

    Relative paths in it are relative to the file, or to the working directory. Raises ExperimentError: naming the file,
    the section, the key, the value and what is allowed.
    """
    if isinstance(experiment, Path):
        file = TomlFile.read(experiment, "experiment", ExperimentError)
    else:
        file = TomlFile(Path("experiment"), "", deepcopy(dict(experiment)), ExperimentError)
    apply_changes(file.document, changes)
    rounds = file.document.get("rounds")
    scores = isinstance(rounds, dict) and rounds.get("strategy") == SCORES and "fleet" not in file.document
    if "users" in file.document or scores:
        return replace(_with_users(file), plugins=plugins)
    return replace(_with_fleet(file), plugins=plugins)


def _with_fleet(file: TomlFile) -> Experiment:
    file.require_known((*_FLEET, "personalisation"))
    _require_sections(file, "data", "fleet", "model", "rounds")
    personalisation = file.table("personalisation", file.document.get("personalisation", {}))
    found = Experiment(**_sections(file, _FLEET), personalisation=personalisation)
    with _blaming(file, "model"):
        manifest = read_bundle(found.model.bundle).manifest
        _ = found.kind  # reads the others
    with _blaming(file, "rounds"):
        plan = found.plan
    with _blaming(file, "model"):
        _require_bundles(found)
    method = method_of(plan.local.name)
    with _blaming(file, "faults"):
        possible = ATTACKS if isinstance(method, LocalMethod) else UNSHARED_ATTACKS
        found.faults.require_possible(possible, found.strategy)
    with _blaming(file, "personalisation"):
        _require_personal(found)
    if found.baselines is not None and not found.fleet.held_out:
        raise ExperimentError(
            f"{file.place('baselines')}: [baselines] are evaluated on clips of devices; give [fleet] held_out, say 0.4"
        )
    with _blaming(file, "rounds"):
        if not found.data.public and not isinstance(method, LocalMethod):
            raise ExperimentError(f"strategy = {found.strategy!r} needs a public set; give [data] public, say 0.1")
        require_memory(found, manifest)
    return found


def _with_users(file: TomlFile) -> ZeroShotExperiment:
    file.require_known((*_USERS, "[[users]]"), f" of the strategy {SCORES!r}, whose users have models of their own")
    _require_sections(file, "data", "[users]", "rounds")
    sections, listed = _sections(file, _USERS), file.document["users"]
    if not isinstance(listed, list) or not listed:
        raise ExperimentError(f"{file.path}: users must be written as [[users]], once for each, not {listed!r}")
    users = tuple(_user(file, number, values) for number, values in enumerate(listed, 1))
    try:
        found = ZeroShotExperiment(users=users, **sections)
    except RefusedKeyError as error:
        raise ExperimentError(f"{file.place('faults', error.key)}: [faults] {error}") from error
    except ExperimentError as error:
        raise ExperimentError(f"{file.path}: {error}") from error
    with _blaming(file, "rounds"):
        plan = found.plan
        if plan.local.name != SCORES:
            raise RefusedKeyError(
                "strategy",
                found.strategy,
                f"[[users]] have models of their own, which only {SCORES!r} combines; a shared model's experiment has "
                "[fleet] and [model] instead",
            )
    for number, user in enumerate(users, 1):
        _require_bundles_of(file.path, f"[users {number}]", user, found)
    return found


def _require_sections(file: TomlFile, *needed: str) -> None:
    for name in needed:
        if name.strip("[]") not in file.document:
            raise ExperimentError(f"{file.path}: the section [{name}] is missing; docs/simulator.md has an example")


def _sections(file: TomlFile, kinds: Mapping[str, type[Any]]) -> dict[str, Any]:
    """Return the sections that are there; those that are not have their defaults."""
    return {
        name: file.section(name, kind, file.document[name]) for name, kind in kinds.items() if name in file.document
    }


@contextmanager
def _blaming(file: TomlFile, section: str) -> Iterator[None]:
    """Name the section, and its place in the file, in an error."""
    try:
        yield
    except (AggregatorError, ExperimentError, ProtocolError) as error:
        key = error.key if isinstance(error, RefusedKeyError) else None
        raise ExperimentError(f"{file.place(section, key)}: [{section}] {error}") from error


def _require_personal(experiment: Experiment) -> None:
    """Check the personalisation, and that it can be run."""
    name, local = experiment.personal.name, experiment.plan.local.name
    if name == "none":
        return
    method = method_of(local)
    if is_prototypes(method):
        raise ExperimentError(f"name = {name!r}: with {local} every device fits a head of its own anyway; leave it out")
    if personalisations()[name].groups and (not isinstance(method, LocalMethod) or method.any_architecture):
        raise ExperimentError(
            f"name = {name!r}: with {local} the devices have models of their own, which no group shares; use 'local'"
        )
    if not experiment.fleet.held_out:
        raise ExperimentError(f"name = {name!r}: devices choose by clips of their own; give [fleet] held_out, say 0.4")


def _require_bundles(experiment: Experiment) -> None:
    """Check that the bundles can be read, and that the devices' own models go with the plan."""
    model, plan = experiment.model, experiment.plan
    method, shared = method_of(plan.local.name), read_bundle(model.bundle).manifest
    if is_prototypes(method) and (shared.embedding_statistics is None or not shared.background):
        raise ExperimentError(
            f"bundle = {model.bundle}: {method.name} needs a bundle with the words of its front end's pretraining, "
            'such as bundle = "base"'
        )
    for path in model.own:
        own = read_bundle(path).manifest
        shares = isinstance(method, LocalMethod) and not method.any_architecture
        if shares and own.network != shared.network:
            raise ExperimentError(
                f"own = {path}: {plan.local.name} needs the fleet's bundle on every device; leave 'own' out, use the "
                "strategy 'fedmlac' or 'zero_shot', which take any architecture"
            )
        own.feature_settings.require_same(shared.feature_settings, str(path), f"the shared model ({model.bundle})")


def _user(file: TomlFile, number: int, values: Any) -> UserSection:  # noqa: ANN401  (whatever the file has there)
    name = f"users {number}"
    values = file.table(name, values)
    rest = {key: value for key, value in values.items() if key != "events"}
    events = values.get("events", [])
    if not isinstance(events, list):
        raise ExperimentError(f"{file.path}: [{name}] events must be written as [[users.events]], not {events!r}")
    user: UserSection = file.section(name, UserSection, rest, (number,))
    found = [
        file.section(f"users.events {place} of user {number}", EventSection, event, (number, place))
        for place, event in enumerate(events, 1)
    ]
    return replace(user, events=tuple(found))


def _require_bundles_of(path: Path, name: str, user: UserSection, experiment: ZeroShotExperiment) -> None:
    """Check that a user's bundles can be read, have room, and hear as the first user's does."""
    first = experiment.users[0].bundle
    for bundle in user.bundles:
        try:
            manifest = read_bundle(bundle).manifest
            manifest.feature_settings.require_same(
                read_bundle(first).manifest.feature_settings, str(bundle), f"the first user's model ({first})"
            )
        except ProtocolError as error:
            raise ExperimentError(f"{path}: {name} {error}") from error
        if manifest.capacity < len(experiment.labels):
            raise ExperimentError(
                f"{path}: {name} bundle = {bundle}: its head has {manifest.capacity} slots, and the fleet will come "
                f"to {len(experiment.labels)} labels; build it with a larger --capacity"
            )
