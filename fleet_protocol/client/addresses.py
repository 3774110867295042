"""The addresses of a device's fleet: which one is in use, when the device changes over, and when it goes back."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

# A server that is busy says 503 now and then; one that says nothing else is given up.
_UNWILLING = 2
# The order is the device's own, so that servers share a fleet. Without a way back the one that was restarted last would
# have no device.
_HOME_S = 3_600.0


def own_order(urls: Sequence[str], device_id: str) -> tuple[str, ...]:
    """Return addresses in the order in which one device tries them; the devices of a fleet begin at all of them."""
    drawn = list(urls)
    random.Random(device_id).shuffle(drawn)  # noqa: S311  (spreads devices, guards nothing)
    return tuple(drawn)


class Addresses:
    """Addresses in the order in which they are tried. The device stays with one until it fails.

    Attributes:
        problems: Why each address was not usable when it was last tried; "" where it was, or never tried.
        another: Whether an address is left that did not fail since one last answered.
    """

    def __init__(self, urls: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self.problems = dict.fromkeys(urls, "")
        self.another = False
        self._urls = tuple(urls)
        self._clock = clock
        self._at = 0
        self._unwilling = 0
        self._failed: set[str] = set()
        self._home_at: float | None = None

    @property
    def url(self) -> str:
        """The address in use."""
        return self._urls[self._at]

    def note_answer(self) -> None:
        """Note that the address in use answered."""
        self.problems[self.url] = ""
        self.another = False
        self._unwilling = 0
        self._failed.clear()

    def note_failure(self, problem: str, *, unwilling: bool = False) -> None:
        """Note that the address in use failed, and change over to the next one.

        Args:
            problem: what to say of it.
            unwilling: whether its server answers, and asks for patience: it is given up when it does so again.
        """
        self.problems[self.url] = problem
        self._unwilling += unwilling
        if len(self._urls) == 1:
            return
        if unwilling and self._unwilling < _UNWILLING:
            self.another = True
            return
        self._unwilling = 0
        self._failed.add(self.url)
        self._at = (self._at + 1) % len(self._urls)
        self._home_at = self._clock() + _HOME_S if self._at else None
        self.another = self.url not in self._failed
        if not self.another:
            self._failed.clear()

    def go_home(self) -> None:
        """Take the first address again, some time after it failed."""
        if self._home_at is not None and self._clock() >= self._home_at:
            self._at, self._home_at, self._unwilling = 0, None, 0

    def report(self) -> list[dict[str, str | bool]]:
        """Return each address, whether it is in use, and its problem."""
        return [{"url": url, "in_use": url == self.url, "error": self.problems[url]} for url in self._urls]
