"""What a device calls the fleet's classes: as its owner chose, else as the fleet's last work did."""

from __future__ import annotations

from collections.abc import Mapping

from edge_client.storage.database import Database

_OF_FLEET, _OWN = "class_names", "own_class_names"


class ClassNames:
    """Names by class. All raise StateError, OSError as :class:`Database` does."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def present(self) -> dict[str, str]:
        """Return each class's name."""
        return self._note(_OF_FLEET) | self._note(_OWN)

    def follow(self, names: Mapping[str, str], merged: Mapping[str, str]) -> None:
        """Take up how the fleet calls its classes now; ``merged``: by class the one that it became."""
        own = self._note(_OWN)
        moved = {class_id: name for class_id, name in own.items() if class_id not in merged}
        moved = {merged[class_id]: name for class_id, name in own.items() if class_id in merged} | moved
        self._set(_OF_FLEET, dict(names))
        self._set(_OWN, moved)

    def choose(self, class_id: str, name: str | None) -> None:
        """Call a class by the owner's name; None, or the fleet's name: it follows the fleet again."""
        others = {other: own for other, own in self._note(_OWN).items() if other != class_id}
        is_fleets = name is None or self._note(_OF_FLEET).get(class_id) == name
        self._set(_OWN, others if is_fleets else others | {class_id: str(name)})

    def forget(self) -> None:
        """Forget all names: another fleet has other classes."""
        self._set(_OF_FLEET, {})
        self._set(_OWN, {})

    def _note(self, name: str) -> dict[str, str]:
        return {str(class_id): str(said) for class_id, said in (self._database.note(name) or {}).items()}

    def _set(self, name: str, names: dict[str, str]) -> None:
        if names != self._note(name):
            self._database.set_note(name, names or None)
