"""Settings that the command line changes in an experiment: ``--set rounds.count=20``."""

import tomllib
from collections.abc import Sequence
from typing import Any

from fleet_simulator.errors import ExperimentError

_SHORT = {"rounds": "rounds.count", "seed": "rounds.seed"}


def apply_changes(document: dict[str, Any], changes: Sequence[str]) -> None:
    """Change an experiment's parsed file in place, by ``section.key=value`` each.

    The value is as TOML writes it, or a word that needs no quotes. ``rounds=N`` and ``seed=N`` are short forms.

    Raises ExperimentError: a change is not written like that, or its key leads through something that is no section.
    """
    for change in changes:
        key, equals, text = change.partition("=")
        names = _SHORT.get(key.strip(), key.strip()).split(".")
        if not equals or not all(names):
            raise ExperimentError(f"--set {change}: write it like --set rounds.count=20")
        if len(names) < 2:
            raise ExperimentError(f"--set {change}: name the section too, as in --set rounds.{names[0]}={text}")
        table = document
        for name in names[:-1]:
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                raise ExperimentError(f"--set {change}: {name} is no section of keys")
        table[names[-1]] = _value(text.strip())


def _value(text: str) -> Any:  # noqa: ANN401  (whatever TOML holds)
    try:
        found = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return found["value"] if len(found) == 1 else text
