"""The strategies that a round can follow: those of this folder, and those of installed packages."""

from __future__ import annotations

from functools import cache

from aggregator_server.errors import UnknownStrategyError
from aggregator_server.strategies.plan_methods import Part, known_settings
from aggregator_server.strategies.strategy import Strategy
from fleet_protocol.errors import PluginError
from fleet_protocol.registry import Registry, discover


@cache
def strategies() -> Registry[Strategy]:
    """Return every strategy by name.

    Raises:
        PluginError: an installed package's strategy or method cannot be used, or a strategy names an unknown method.
    """
    found = discover("aggregator_server.strategies", "STRATEGY", "auricle.strategies", Strategy)
    for name, strategy in found.items():
        named: dict[Part, str] = {
            "local": strategy.local,
            "aggregation": strategy.aggregation,
            "selection": strategy.selection,
            "personalisation": strategy.personalisation,
        }
        for part, method in named.items():
            if method not in known_settings(part):
                known = ", ".join(known_settings(part))
                raise PluginError(f"strategy {name!r} names the unknown {part} method {method!r}; known: {known}")
    return found


def strategy(name: str) -> Strategy:
    """Return a strategy by its present name or a former one.

    Raises:
        UnknownStrategyError: there is none of that name; says which there are.
        PluginError: an installed package's strategy cannot be used.
    """
    found = strategies().get(name)
    if found is None:
        raise UnknownStrategyError(f"unknown strategy {name!r}; known: {', '.join(sorted(strategies()))}")
    return found
