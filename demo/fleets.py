"""The fleets that go through the schedule: the published one, and one on a pretrained front end."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FleetKind:
    """What the devices of a fleet listen with.

    Attributes:
        key: Name in tables and in the figures as JSON.
        title: Description for people.
        bundles: Ready bundle of each device.
        strategy: Strategy of its rounds; None: the recommended one.
    """

    key: str
    title: str
    bundles: tuple[str, str, str]
    strategy: str | None = None


# Gudur & Perepu 2021, table 1.
PUBLISHED = FleetKind(
    "published", "cepstra, networks trained from scratch (as published)", ("cnn2", "cnn3", "dscnn3"), "zero_shot"
)
PRETRAINED = FleetKind("base", "pretrained front end 'base', heads alone are trained", ("base", "base_hidden", "base"))
