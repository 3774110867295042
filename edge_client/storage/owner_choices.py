"""What an owner decided beside the clips: thresholds, and whether detected sounds are kept."""

from __future__ import annotations

from collections.abc import Collection

from edge_client.storage.database import Database
from edge_client.storage.label_keys import Renamings, label_key

_KEEPS_DETECTED, _THRESHOLDS = "keeps_detected", "thresholds"


class OwnerChoices:
    """A device's owner's choices. All raise StateError, OSError as :class:`Database` does."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._label_names = Renamings(database)

    def keeps_detected(self) -> bool | None:
        """Return whether detected sounds are kept; None: as the configuration says."""
        found = self._database.note(_KEEPS_DETECTED)
        return None if found is None else bool(found)

    def keep_detected(self, *, on: bool) -> None:
        """Keep detected sounds from now on, or none."""
        self._database.set_note(_KEEPS_DETECTED, on)

    def thresholds(self) -> dict[str, float]:
        """Return by label from which score, 0..1, it counts as heard, where the owner chose it."""
        return {str(label): float(value) for label, value in (self._database.note(_THRESHOLDS) or {}).items()}

    def set_threshold(self, label: str, threshold: float | None) -> None:
        """Choose from which score a label counts as heard; None: the device chooses."""
        others = {name: value for name, value in self.thresholds().items() if name != label}
        self._database.set_note(_THRESHOLDS, others if threshold is None else others | {label: threshold})

    def rename_label(self, former: str, label: str) -> None:
        """Let what belongs to a label follow its new name, which has none of its own: threshold, and key outside."""
        self._label_names.add(former, label)
        chosen = self.thresholds()
        if former in chosen:
            self.set_threshold(former, None)
            self.set_threshold(label, chosen[former])

    def expect_no_more(self, labels: Collection[str]) -> None:
        """Note that labels are gone, which therefore need no key outside that they had under another name."""
        self._label_names.settle({label_key(label) for label in labels})

    def forget_labels(self, labels: Collection[str]) -> None:
        """Forget whatever names one of some labels."""
        for label in self.thresholds().keys() & set(labels):
            self.set_threshold(label, None)
