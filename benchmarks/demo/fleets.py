"""The two fleets that go through the schedule: the published one, and one on a pretrained front end."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.demo.paper import ARCHITECTURES


@dataclass(frozen=True)
class FleetKind:
    """What the devices of a fleet listen with.

    Attributes:
        key: of the figures as JSON, and of the fleet's folder.
        title: for people.
        bundles: ready bundle of each device.
        strategy: of its rounds; None: the recommended one.
    """

    key: str
    title: str
    bundles: tuple[str, str, str]
    strategy: str | None = None


PUBLISHED = FleetKind("published", "cepstra, networks trained from scratch (as published)", ARCHITECTURES, "zero_shot")
PRETRAINED = FleetKind("base", "pretrained front end 'base', heads alone are trained", ("base", "base_hidden", "base"))
