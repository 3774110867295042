"""Reads the TOML file of an experiment with users, and checks it in full, before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from aggregator_server.errors import AggregatorError
from fleet_protocol.bundle import read_bundle
from fleet_protocol.errors import ProtocolError
from fleet_protocol.toml_sections import TomlFile
from fleet_simulator.errors import ExperimentError
from fleet_simulator.experiment.data_section import DataSection
from fleet_simulator.experiment.faults import FaultsSection
from fleet_simulator.experiment.file import Source, read_toml
from fleet_simulator.experiment.sections import RoundsSection
from fleet_simulator.experiment.zero_shot_sections import EventSection, UserSection, ZeroShotExperiment, ZeroShotSection

STRATEGY = "zero_shot"
_NEEDED = ("data", "users", "rounds")


def has_users(experiment: Source, changes: Sequence[str] = ()) -> bool:
    """Return whether an experiment is one of the strategy ``zero_shot``, in which every user has a section.

    Raises:
        ExperimentError: the file cannot be read.
    """
    document = read_toml(experiment, changes).document
    rounds = document.get("rounds")
    return "users" in document or (isinstance(rounds, dict) and rounds.get("strategy") == STRATEGY)


def load_zero_shot(experiment: Source, changes: Sequence[str] = ()) -> ZeroShotExperiment:
    """Read and check an experiment. Relative paths in it are relative to the file, or to the working directory.

    Args:
        experiment: path of the file, or what it would hold.
        changes: of its settings (``apply_changes`` of changes.py).

    Raises:
        ExperimentError: naming the file, the section, the key, the value and what is allowed.
    """
    file = read_toml(experiment, changes)
    path, document = file.path, file.document
    kinds: dict[str, type[Any]] = {
        "data": DataSection,
        "rounds": RoundsSection,
        "zero_shot": ZeroShotSection,
        "faults": FaultsSection,
    }
    of_strategy = f" of the strategy {STRATEGY!r}, whose users have models of their own"
    file.require_known((*kinds, "[[users]]"), of_strategy)
    if missing := [name for name in _NEEDED if name not in document]:
        name = f"[{missing[0]}]" if missing[0] == "users" else missing[0]
        raise ExperimentError(f"{path}: the section [{name}] is missing; docs/simulator-zero-shot.md has an example")
    sections = {name: file.section(name, kind, document.get(name, {})) for name, kind in kinds.items()}
    users = tuple(_user(file, number, values) for number, values in enumerate(_tables(path, document["users"]), 1))
    try:
        found = ZeroShotExperiment(users=users, **sections)
    except ExperimentError as error:
        raise ExperimentError(f"{path}: {error}") from error
    _require_plan(file, found)
    for number, user in enumerate(users, 1):
        _require_bundles(path, f"[users {number}]", user, found)
    return found


def _tables(path: Path, users: Any) -> list[Any]:  # noqa: ANN401  (whatever the file has there)
    if not isinstance(users, list) or not users:
        raise ExperimentError(f"{path}: users must be written as [[users]], once for each, not {users!r}")
    return users


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


def _require_plan(file: TomlFile, experiment: ZeroShotExperiment) -> None:
    try:
        plan = experiment.rounds.plan
    except (AggregatorError, ExperimentError) as error:
        raise ExperimentError(f"{file.place('rounds')}: [rounds] {error}") from error
    if plan.local.name != STRATEGY:
        raise ExperimentError(
            f"{file.place('rounds', 'strategy')}: [rounds] strategy = {experiment.rounds.strategy!r}: [[users]] "
            f"have models of their own, which only {STRATEGY!r} combines; a shared model's experiment has [fleet] and "
            "[model] instead"
        )


def _require_bundles(path: Path, name: str, user: UserSection, experiment: ZeroShotExperiment) -> None:
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
