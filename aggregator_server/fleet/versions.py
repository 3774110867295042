"""What devices run: which texts are taken, and which devices run an older program than this server."""

import re
from dataclasses import asdict
from functools import cache, lru_cache

from aggregator_server.errors import InvalidRequestError
from aggregator_server.names import check_name
from fleet_protocol.ground.command_line import version
from fleet_protocol.limits import VERSION_LENGTH
from fleet_protocol.messages.rest import Versions
from fleet_protocol.numbers.tensors import is_digest

_NUMBERS = re.compile(r"\d{1,9}(?:\.\d{1,9})*")


def check_versions(versions: Versions) -> dict[str, str] | None:
    """Return what a device says that it runs, as a row keeps it. Raises InvalidRequestError: a text cannot be used."""
    said = {name: text for name, text in asdict(versions).items() if text}
    for name, text in said.items():
        check_name(text, f"versions.{name}", VERSION_LENGTH)
    if versions.bundle_sha256 and not is_digest(versions.bundle_sha256):
        raise InvalidRequestError(
            f"versions.bundle_sha256 must be 64 lower-case hex digits or left out, not {versions.bundle_sha256!r}"
        )
    return said or None


def is_outdated(program: str, ours: str | None = None) -> bool:
    """Say whether a device's program is older than ``ours``, or this server's.

    Who does not say which has an old one. What follows the numbers of a version (``rc1``) does not count.
    """
    there, here = _numbers_of(program), _numbers_of(_own() if ours is None else ours)
    return there < here


@cache
def _own() -> str:
    return version()  # asked of the disk once


@lru_cache(maxsize=1_024)
def _numbers_of(text: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with, without zeros at their end; empty where it is no version."""
    found = _NUMBERS.match(text)
    numbers = [int(part) for part in found[0].split(".")] if found else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
