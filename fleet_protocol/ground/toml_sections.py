"""TOML files whose sections are dataclasses that check themselves.

Every error names the file, the line, the section, the key, the value and what is allowed. The parser does not tell
where a key stands; :meth:`TomlFile.place` finds it in the text.
"""

from __future__ import annotations

import dataclasses
import tomllib
import types
import typing
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dacite

from fleet_protocol.bundle.ready_bundles import FIRST_CHOICE, BundlePath, choice, find_bundle
from fleet_protocol.errors import AuricleError, BundleError

_Nth = tuple[int, ...]
_MOST_CHARACTERS = 4 * 2**20  # a device such as /dev/zero would be read for ever


class RefusedValue(AuricleError):  # noqa: N818  (a base class: each package's own error ends in Error)
    """A value is outside what a key allows."""

    def __init__(self, key: str, value: object, rule: str) -> None:
        super().__init__(f"{key} = {list(value) if isinstance(value, tuple) else value!r}: {rule}")
        self.key = key


@dataclass(frozen=True)
class TomlFile:
    """A TOML file, and where in it everything stands."""

    path: Path
    text: str
    document: dict[str, Any]  # The text, parsed
    error: type[AuricleError]  # Class of the errors that its sections raise

    @classmethod
    def read(cls, path: Path, what: str, error: type[AuricleError]) -> TomlFile:
        """Read a file; ``what`` it is, for messages.

        Raises AuricleError: of the class ``error``, here and later: it cannot be read, or is not TOML.
        """
        try:
            with path.open(encoding="utf-8-sig") as file:  # editors of Windows begin with a byte order mark
                text = file.read(_MOST_CHARACTERS + 1)
            if len(text) > _MOST_CHARACTERS:
                raise error(f"cannot read the {what} {path}: it has more than {_MOST_CHARACTERS} characters")
            return cls(path, text, tomllib.loads(text), error)
        except OSError as cause:
            raise error(f"cannot read the {what} {path}: {cause.strerror}") from cause
        except (ValueError, RecursionError) as cause:  # of text, syntax, and numbers of thousands of digits
            raise error(f"{path} is not valid TOML: {cause}") from cause

    def place(self, section: str | None, key: str | None = None, nth: _Nth = ()) -> str:
        """Return ``FILE, line N`` of a key, or of its section where the key is not found; the file where neither is.

        ``section`` is dotted, or None for keys before the first one; ``key`` is in it or in a table inside it. ``nth``:
        of sections that are there more than once (``[[a.b]]``), which a, and which b of that a, from 1.
        """
        current, found = None, 0
        counts: dict[str, int] = {}
        for number, line in enumerate(self.text.splitlines(), start=1):
            stripped = line.strip()
            if stripped.startswith("["):
                current = stripped.strip("[]").split("]")[0].strip()
                counts = {name: count for name, count in counts.items() if not name.startswith(current + ".")}
                counts[current] = counts.get(current, 0) + 1
            inside = _is_inside(current, section, counts, nth)
            if inside and stripped.startswith("[") and (current == section or not found):
                found = number
            name = stripped.partition("=")[0].strip().strip("\"'")
            if key is not None and inside and (name == key or name.split(".")[0] == key):
                return f"{self.path}, line {number}"
        return f"{self.path}, line {found}" if found else str(self.path)

    def require_known(self, known: Collection[str], whose: str = "") -> None:
        """Refuse an unknown section, and say ``whose`` after its name. Raises AuricleError: of the file's class.

        ``known`` are names of sections as messages write them: brackets around a name do not count.
        """
        names = {one.strip("[]") for one in known}
        for name in (name for name in self.document if name not in names):
            raise self.error(f"{self.place(name)}: unknown section [{name}]{whose}; known: {', '.join(known)}")

    def table(self, name: str, values: Any) -> dict[str, Any]:  # noqa: ANN401  (whatever the file has there)
        """Return a section's values, once it is sure that it is a section. Raises AuricleError: of the file's class."""
        if not isinstance(values, dict):
            raise self.error(f"{self.place(None, name)}: [{name}] must be a section of keys, not {values!r}")
        return values

    def section(self, name: str, kind: type[Any], values: Any, nth: _Nth = ()) -> Any:  # noqa: ANN401  (a section's class)
        """Return a section as an object of its dataclass ``kind``, which has checked its values.

        Relative paths are relative to the file. Where the dataclass has a ``BundlePath``, the file may name a ready
        bundle. Of ``name``, as messages write it, the first word is the name in the file; ``nth`` is as of
        :meth:`place`. Raises AuricleError: of the file's class.
        """
        header = name.split()[0]
        values = self.table(name, values)
        known = [item.name for item in dataclasses.fields(kind)]
        for key in values:
            if key not in known:
                where = self.place(header, key, nth)
                raise self.error(f"{where}: unknown key {key!r} in [{name}]; known: {', '.join(known)}")
        hints = typing.get_type_hints(kind, include_extras=True)
        folder = self.path.resolve().parent
        values = {key: self._value(key, hints[key], value, name, nth) for key, value in values.items()}
        rules = dacite.Config(type_hooks={Path: lambda given: folder / Path(given).expanduser()}, cast=[tuple])
        try:
            return dacite.from_dict(kind, values, rules)
        except RefusedValue as error:
            raise self.error(f"{self.place(header, error.key, nth)}: [{name}] {error}") from error
        except dacite.DaciteFieldError as error:
            key = (error.field_path or "").split(".")[0]
            where = self.place(header, key, nth)
            if isinstance(error, dacite.MissingValueError):
                raise self.error(f"{where}: [{name}] needs the key {key!r}{_advice(key, hints.get(key))}") from error
            raise self.error(f"{where}: [{name}] {key} = {values.get(key)!r} is of the wrong type: {error}") from error
        except (dacite.DaciteError, TypeError, ValueError) as error:
            given = ", ".join(f"{key} = {value!r}" for key, value in values.items())
            raise self.error(f"{self.place(header, nth=nth)}: [{name}] {error} ({given})") from error

    def _value(self, key: str, hint: Any, value: Any, name: str, nth: _Nth) -> Any:  # noqa: ANN401  (a hint; a value)
        """Return a key's value as its section takes it, with bundles found."""
        if typing.get_origin(hint) is tuple and not isinstance(value, list):  # a text would become its letters
            where = self.place(name.split()[0], key, nth)
            raise self.error(
                f"{where}: [{name}] {key} = {value!r} is of the wrong type: it must be a list, in brackets"
            )
        if hint != BundlePath and BundlePath not in typing.get_args(hint):
            return _as_declared(hint, value)
        given, folder = (value if isinstance(value, list) else [value]), self.path.resolve().parent
        try:
            found = [str(find_bundle(one, folder)) if isinstance(one, str) else one for one in given]
        except BundleError as error:
            raise self.error(f"{self.place(name.split()[0], key, nth)}: [{name}] {key}: {error}") from error
        return found if isinstance(value, list) else found[0]


def _advice(key: str, hint: object) -> str:
    """Say what a key that is missing may hold, where that is a bundle."""
    return f', as in {key} = "{FIRST_CHOICE}"; {choice()}' if hint == BundlePath else ""


def _as_declared(hint: Any, value: Any) -> Any:  # noqa: ANN401  (a type hint; what TOML holds)
    """Turn an integer into a float where the section declares a float and no integer."""
    parts = typing.get_args(hint)
    if hint is float or (isinstance(hint, types.UnionType) and float in parts and int not in parts):
        return float(value) if type(value) is int else value
    if typing.get_origin(hint) is tuple and isinstance(value, list):
        return [_as_declared(parts[0], item) for item in value]
    if typing.get_origin(hint) is dict and isinstance(value, dict):
        return {key: _as_declared(parts[1], item) for key, item in value.items()}
    return value


def _is_inside(current: str | None, section: str | None, counts: dict[str, int], nth: _Nth) -> bool:
    if section is None or current is None:
        return section is current
    parts = section.split(".")
    prefixes = [".".join(parts[: end + 1]) for end in range(len(parts))]
    wanted = all(counts.get(prefix, 0) == count for prefix, count in zip(prefixes, nth, strict=False))
    return wanted and (current == section or current.startswith(section + "."))
