"""How the devices of the fleet are, each in a word, and how many of each there are."""

import re
from dataclasses import dataclass
from functools import cache, lru_cache

from sqlalchemy import ColumnElement, case, func, literal_column, select
from sqlalchemy.orm import Session

from aggregator_server.fleet.reputation import QUARANTINED, SUSPECTED
from aggregator_server.limits import AWAY_S
from aggregator_server.schemas import DeviceInfo
from aggregator_server.store.expressions import program_of
from aggregator_server.store.tables import IS_ACTIVE, DeviceRow
from fleet_protocol.ground.command_line import version

SEEN_S = 900.0
"""A device that was heard of within so many seconds counts as present: one that is on asks for work every minute."""

HEALTH = ("waiting", "quarantine", "trouble", "suspicious", "silent", "well", "revoked")
"""What a device can be, in the order in which people look at them."""

_NAMED = 20  # devices that are away
_NUMBERS = re.compile(r"\d{1,9}(?:\.\d{1,9})*")
PROGRAMS = 200
"""Different versions, and other texts of devices, that are told apart; devices say them, so there is a bound."""


def health_of(device: DeviceInfo, now: float) -> str:
    """Return in one word how a device is: the first of these that holds.

    ``revoked``, ``waiting``, ``quarantine``, ``trouble`` (it says why it cannot contribute), ``silent`` (not heard of
    for 15 minutes), ``suspicious``, ``well``.
    """
    if device.revoked_at is not None:
        return "revoked"
    if device.waiting:
        return "waiting"
    if device.conduct.quarantined_at is not None:
        return "quarantine"
    if device.trouble:
        return "trouble"
    if now - device.seen_at.timestamp() > SEEN_S:
        return "silent"
    return "suspicious" if device.conduct.suspicion else "well"


@dataclass(frozen=True)
class FleetHealth:
    """How many devices of each health there are; ``seen``: active ones heard of lately, whatever else they are."""

    waiting: int
    quarantine: int
    trouble: int
    suspicious: int
    silent: int
    well: int
    revoked: int
    seen: int

    @property
    def total(self) -> int:
        """All devices that ever enrolled."""
        return sum(getattr(self, word) for word in HEALTH)

    @property
    def present(self) -> int:
        """Devices that were not revoked."""
        return self.total - self.revoked

    @property
    def active(self) -> int:
        """Devices that may take part, those in quarantine among them."""
        return self.present - self.waiting


def count_health(session: Session, now: float) -> FleetHealth:
    """Count the devices by their health.

    What nearly all devices are is counted in an index alone; the devices that need somebody are looked at.
    """
    since = now - SEEN_S
    total = session.scalar(select(func.count()).select_from(DeviceRow)) or 0
    revoked = count_devices(session, DeviceRow.revoked_at.is_not(None))
    waiting = count_devices(session, DeviceRow.waiting.is_(True) & DeviceRow.revoked_at.is_(None))
    unseen = count_devices(session, IS_ACTIVE & (DeviceRow.seen_at < since))  # mostly fewer than were heard of
    seen = total - revoked - waiting - unseen
    shut, shut_seen = _with_seen(session, DeviceRow.device_id.in_(QUARANTINED), since)
    in_trouble = DeviceRow.trouble.is_not(None) & DeviceRow.device_id.not_in(QUARANTINED)
    troubled, troubled_seen = _with_seen(session, in_trouble, since)
    _, suspicious = _with_seen(
        session,
        DeviceRow.device_id.in_(SUSPECTED) & DeviceRow.trouble.is_(None) & DeviceRow.device_id.not_in(QUARANTINED),
        since,
    )
    return FleetHealth(
        waiting=waiting,
        quarantine=shut,
        trouble=troubled,
        suspicious=suspicious,
        silent=unseen - (shut - shut_seen) - (troubled - troubled_seen),
        well=seen - shut_seen - troubled_seen - suspicious,
        revoked=revoked,
        seen=seen,
    )


@dataclass(frozen=True)
class Away:
    """Devices that a round would leave out, because they were not heard of for a while; ``names``: the first ones."""

    count: int
    names: tuple[str, ...]


def find_away(session: Session, now: float) -> Away:
    """Return which devices that may take part are away."""
    away = IS_ACTIVE & DeviceRow.device_id.not_in(QUARANTINED) & (DeviceRow.seen_at < now - AWAY_S)
    names = session.scalars(select(DeviceRow.name).where(away).order_by(DeviceRow.seen_at.desc()).limit(_NAMED))
    return Away(count_devices(session, away), tuple(names))


def count_devices(session: Session, condition: ColumnElement[bool]) -> int:
    """Count the devices that meet a condition."""
    return session.scalar(select(func.count()).select_from(DeviceRow).where(condition)) or 0


def _with_seen(session: Session, condition: ColumnElement[bool], since: float) -> tuple[int, int]:
    """Count the active devices that meet a condition, and those of them that were heard of since."""
    of_these = func.count(case((DeviceRow.seen_at >= since, literal_column("1"))))
    found = session.execute(select(func.count(), of_these).select_from(DeviceRow).where(IS_ACTIVE, condition)).one()
    return int(found[0]), int(found[1])


def is_outdated_one(session: Session) -> ColumnElement[bool]:
    """Return the condition that a device runs an older program than this server, of ``PROGRAMS`` versions at most."""
    program = program_of(DeviceRow.versions)
    said = session.scalars(select(program).where(program.is_not(None)).distinct().limit(PROGRAMS))
    return program.is_(None) | program.in_([text for text in said if is_outdated(text)])


def count_outdated(session: Session) -> int:
    """Count the devices that were not revoked and are outdated."""
    return count_devices(session, is_outdated_one(session) & DeviceRow.revoked_at.is_(None))


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
