"""What the rounds so far can have told of a device (differential privacy), and the budget that its owner set."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge_client.storage.checked_files import of_another_release, read_twice, write_twice
from fleet_protocol.errors import SecureSumError
from fleet_protocol.messages.private_rounds import PrivatePlan
from fleet_protocol.secure_sums.privacy_budget import DELTA, epsilon_of, spent_by

PRIVACY = "privacy.json"
_MEANS_LITTLE = 10.05  # epsilon: beyond it e^epsilon is no number that helps anybody


@dataclass(frozen=True)
class Spent:
    """What was told; ``noisy`` and ``open`` count rounds with and without noise."""

    mu_squared: float = 0.0  # of the rounds with noise together (fleet_protocol.secure_sums.privacy_budget)
    noisy: int = 0
    open: int = 0
    last: str = ""  # Digest of the newest upload that was counted

    def told(self, budget: float | None) -> dict[str, Any] | None:
        """Return it for people, JSON-ready; None where nothing was told and no ``budget``, an epsilon, is set.

        ``epsilon`` is None where nothing bounds what was told.
        """
        if budget is None and not self.noisy + self.open:
            return None
        found = epsilon_of(self.mu_squared)
        limit = "" if budget is None else f" of at most {budget:g}"
        said = f"{found:.2g}" if found < 10 else f"{found:.0f}"
        words = f"so far the fleet's rounds can have told epsilon {said}{limit}, at delta {DELTA:g}"
        if self.open:
            words += f", besides {self.open} uploads without noise, of which nothing bounds what they tell"
        elif found <= _MEANS_LITTLE:
            times = f"{math.exp(found):.2g}" if found < 4 else f"{math.exp(found):,.0f}"
            words += f": whatever anybody guesses of this home, they make it at most {times} times as likely"
        else:
            words += ", which promises little"
        epsilon = found if math.isfinite(found) and not self.open else None
        return dataclasses.asdict(self) | {"epsilon": epsilon, "delta": DELTA, "budget": budget, "words": words}


class PrivacyLedger:
    """The file ``privacy.json`` of a state folder: counted before an upload leaves, and never forgotten.

    A fleet that is left has learned all the same: the file outlives the membership.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / PRIVACY

    def load(self) -> Spent:
        """Return what was told so far. Raises DamagedError: the file and its copy are damaged; StateError."""
        if not self.path.exists():
            return Spent()
        try:
            return Spent(**json.loads(read_twice(self.path)))
        except (ValueError, TypeError) as error:
            raise of_another_release(self.path, error, "remove it to count from now on") from error

    def count(self, upload: str, private: PrivatePlan | None) -> None:
        """Note an upload that is about to leave, by its digest; the same again counts once. Raises OSError."""
        spent = self.load()
        if spent.last == upload:
            return
        if private is not None and private.noise:
            more = spent.mu_squared + spent_by(private.noise)
            spent = dataclasses.replace(spent, mu_squared=more, noisy=spent.noisy + 1)
        else:
            spent = dataclasses.replace(spent, open=spent.open + 1)
        write_twice(self.path, json.dumps(dataclasses.asdict(dataclasses.replace(spent, last=upload))).encode())

    def require_within(self, budget: float | None, private: PrivatePlan | None) -> None:
        """Refuse a round that would exceed a budget, an epsilon. Raises SecureSumError: it would, or has no noise."""
        if budget is None:
            return
        if private is None or not private.noise:
            raise SecureSumError("the round has no noise, and this device has a budget ([privacy] epsilon)")
        after = epsilon_of(self.load().mu_squared + spent_by(private.noise))
        if after > budget:
            raise SecureSumError(
                f"the round would bring what was told of this device to epsilon {after:.3g}, and its owner allows "
                f"{budget:g} ([privacy] epsilon)"
            )
