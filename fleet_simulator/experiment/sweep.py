"""Settings that the command line changes in an experiment (``--set rounds.count=20``), and sweeps over several.

A change such as ``seed=1,2,3`` stands for a run for each value; several of them, for each combination of their values.
"""

from __future__ import annotations

import hashlib
import math
import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import Any

from fleet_simulator.errors import ExperimentError

_SHORT = {"rounds": "rounds.count", "seed": "rounds.seed"}


def apply_changes(document: dict[str, Any], changes: Sequence[str]) -> None:
    """Change an experiment's parsed file.

    Args:
        document: of the file, changed in place.
        changes: each ``section.key=value``, with a value as TOML writes it, or a word that needs no quotes;
            ``rounds=N`` stands for ``rounds.count=N``, ``seed=N`` for ``rounds.seed=N``.

    Raises:
        ExperimentError: a change is not written like that, or its key leads through something that is no section.
    """
    for change in changes:
        key, equals, text = change.partition("=")
        names = full_key(key).split(".")
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


def full_key(key: str) -> str:
    """Return a setting's dotted key, for which a short one may stand."""
    return _SHORT.get(key.strip(), key.strip())


def is_toml(text: str) -> bool:
    """Tell whether a text is one value as TOML writes it."""
    try:
        return len(tomllib.loads(f"value = {text}")) == 1
    except tomllib.TOMLDecodeError:
        return False


def _value(text: str) -> Any:  # noqa: ANN401  (whatever TOML holds)
    return tomllib.loads(f"value = {text}")["value"] if is_toml(text) else text


MOST = 1000
_PLAIN = re.compile(r"[A-Za-z0-9.+_-]{1,40}")
_OPENING = ("[", "{", '"', "'")


def sweep(changes: Sequence[str]) -> dict[str, list[str]]:
    """Return the runs that changes stand for: the name of each run's folder, and its changes with one value each.

    A run that is no sweep has the name "".

    Raises:
        ExperimentError: a list of values has an empty one or one twice, its key is changed twice, or the runs are more
            than :data:`MOST`.
    """
    given = [change.partition("=") for change in changes]
    values = [values_of(text) for _, _, text in given]
    keys = [full_key(key) for key, _, _ in given]
    swept = [index for index, several in enumerate(values) if len(several) > 1]
    for index in swept:
        one = f"--set {changes[index]}"
        if keys.count(keys[index]) > 1:
            raise ExperimentError(f"{one}: {keys[index]} is changed more than once; give all of its values in one list")
        if "" in values[index] or len(set(values[index])) < len(values[index]):
            raise ExperimentError(
                f"{one}: a value is empty or there twice; if it is one value with a comma, quote it: '\"a,b\"'"
            )
    if (count := math.prod(len(several) for several in values)) > MOST:
        raise ExperimentError(f"--set: these values stand for {count} runs; a sweep has at most {MOST}")
    last = {index: keys[index].rpartition(".")[2] for index in swept}
    shared = Counter(last.values())
    called = {index: name if shared[name] == 1 else keys[index] for index, name in last.items()}
    return {
        ",".join(f"{called[index]}={_part(run[index])}" for index in swept): [
            f"{change.partition('=')[0]}={run[index]}" if index in called else change
            for index, change in enumerate(changes)
        ]
        for run in product(*values)
    }


def values_of(text: str) -> list[str]:
    """Return the values of a list that is separated by commas; what TOML takes as a whole is one value.

    ``1,2`` and ``[1, 2],[3, 4]`` are two values each, ``[1, 2]`` and ``"a,b"`` are one.
    """
    if is_toml(text):
        return [text]
    found, begun = [], ""
    for piece in text.split(","):
        begun = f"{begun},{piece}" if begun else piece.strip()
        if not begun.startswith(_OPENING) or is_toml(begun):
            found.append(begun.strip())
            begun = ""
    return [*found, begun] if begun else found


def _part(value: str) -> str:
    """Return a value as a part of a folder's name; of one that is long or has other characters also a digest."""
    if _PLAIN.fullmatch(value):
        return value
    return re.sub(r"[^A-Za-z0-9.+_-]+", "_", value)[:40] + "-" + hashlib.sha256(value.encode()).hexdigest()[:8]
