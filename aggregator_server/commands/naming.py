"""What people may write for an id: the id, its beginning, or a name, as long as only one thing can be meant."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from aggregator_server.errors import AggregatorError


@dataclass(frozen=True)
class Named:
    """Something that a command can be told to act on.

    Attributes:
        id: Identifier on the server.
        name: Name for people; None where it has none.
        present: Whether it is in use; what is not counts only where nothing that is in use fits.
    """

    id: str
    name: str | None
    present: bool = True


def resolve(given: str, known: Iterable[Named], what: str, listing: str, *, prefixes: bool = True) -> str:
    """Return the id of what is meant.

    Args:
        given: an id, the beginning of one, or a name (case ignored).
        known: what there is.
        what: kind of it, for the message, like "device".
        listing: command that lists them, for the message.
        prefixes: whether the beginning of an id says which; of a number it does not.

    Raises:
        AggregatorError: nothing or more than one thing can be meant; the message lists the candidates.
    """
    items = tuple(known)
    folded = given.casefold()
    ways: tuple[Callable[[Named], bool], ...] = (
        lambda item: item.id == given,
        lambda item: item.name == given,
        lambda item: item.name is not None and item.name.casefold() == folded,
        lambda item: prefixes and bool(folded) and item.id.casefold().startswith(folded),
    )
    for fits in ways:
        found = [item for item in items if fits(item)]
        found = [item for item in found if item.present] or found
        if len(found) == 1:
            return found[0].id
        if found:
            several = ", ".join(f"{item.id} ({item.name})" if item.name else item.id for item in found)
            raise AggregatorError(f"{given!r} can be more than one {what}: {several}; write more of the id")
    raise AggregatorError(f"there is no {what} {given!r}; `{listing}` lists them")
