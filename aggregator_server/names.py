"""Names that people give to devices and classes: what may be stored, and how two classes keep different names."""

from collections import Counter
from collections.abc import Iterable, Sequence

from aggregator_server.errors import InvalidRequestError
from fleet_protocol.bundle.labels import is_name, normal_name
from fleet_protocol.limits import NAME_LENGTH

_SUFFIX_ROOM = 8  # for " (12345)"


def check_name(name: str, what: str, length: int = NAME_LENGTH) -> str:
    """Return a name as it is stored (``fleet_protocol.bundle.labels``). Raises InvalidRequestError: it is none."""
    if not is_name(name) or len(name) > length or name != name.strip():
        raise InvalidRequestError(
            f"{what} must have 1 to {length} printable characters and no blanks around them, not {name[:300]!r}"
        )
    return normal_name(name)


def majority_name(names: Iterable[str | None]) -> str | None:
    """Return the commonest name, case ignored, in its commonest spelling; None where nobody gives one."""
    given = sorted(name for name in names if name)
    if not given:
        return None
    votes = Counter(name.casefold() for name in given)
    winner = max(votes, key=lambda folded: votes[folded])
    spellings = Counter(name for name in given if name.casefold() == winner)
    return max(spellings, key=lambda name: spellings[name])


def unique_name(wanted: str, taken: Sequence[str]) -> str:
    """Return the wanted name, with a number behind it where that name is taken (case ignored)."""
    folded = {name.casefold() for name in taken}
    base, name, number = wanted[: NAME_LENGTH - _SUFFIX_ROOM].rstrip(), wanted, 2
    while name.casefold() in folded:
        name = f"{base} ({number})"
        number += 1
    return name
