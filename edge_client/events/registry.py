"""The kinds of sinks: the modules of this package that export ``SINK``, and those of installed packages."""

from __future__ import annotations

from collections.abc import Mapping

from edge_client.config import ENROL_VARIABLE, SINK_GROUP, SINK_PACKAGE, Config
from edge_client.events import Sink, SinkDevice, SinkKind
from fleet_protocol.registry import discover


def sink_kinds() -> Mapping[str, SinkKind]:
    """Return every kind of sink by name.

    Raises:
        PluginError: an installed package's sink cannot be loaded, or has a name that is taken.
    """
    return discover(SINK_PACKAGE, "SINK", SINK_GROUP, SinkKind)


def open_sinks(config: Config, device_id: str) -> list[Sink]:
    """Open every sink for which the configuration asks.

    Raises:
        ConfigError: a sink is configured, but its library is not installed.
        OSError: the journal's folder cannot be written.
    """
    opened = (kind.open(SinkDevice(config, device_id, config.sinks.get(name))) for name, kind in sink_kinds().items())
    return [sink for sink in opened if sink is not None]


def secret_variables() -> frozenset[str]:
    """Return the environment variables that hold secrets, which no program of the owner's gets."""
    return frozenset({ENROL_VARIABLE, *(name for kind in sink_kinds().values() for name in kind.secrets.values())})
