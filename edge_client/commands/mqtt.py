"""``mqtt``: what the device left with its broker."""

from __future__ import annotations

import argparse

from edge_client.commands import Commands, open_device, report, set_command
from fleet_protocol.ground.command_line import confirm


def add(commands: Commands) -> None:
    """Add the command and the one below it."""
    mqtt = commands.add_parser("mqtt", help="remove a device from the MQTT broker, and so from Home Assistant")
    actions = mqtt.add_subparsers(metavar="ACTION", required=True)
    clear = actions.add_parser("clear", help="remove all that the broker keeps of this device, which is stopped")
    clear.add_argument("--device", metavar="ID", help="of another device, as its topics name it: its board is gone")
    clear.add_argument("--yes", action="store_true", help="do not ask")
    set_command(clear, _clear)


def _clear(options: argparse.Namespace) -> int:
    from edge_client.errors import ConfigError, StateError
    from edge_client.events.mqtt_clear import clear, clear_home

    config, state = open_device(options)
    if config.mqtt is None:
        raise ConfigError(f"{options.config} has no section [mqtt], which names the broker; remove it afterwards")
    own = state.identity.load().device_id
    device = options.device or own
    if not set(device) <= set("0123456789abcdef"):
        raise ConfigError(f"--device {device[:100]!r}: an id has the digits 0 to 9 and a to f")
    if device == own and state.locked("daemon"):
        raise StateError("the daemon runs, and would announce the device again; stop it first")
    confirm(f"remove the device {device} from {config.mqtt.host} and Home Assistant", yes=options.yes)
    removed = clear(config.mqtt, device)
    if config.home is not None:
        clear_home(config.mqtt, config.home.name, device)
    line = f"{len(removed)} messages were removed" if removed else "the broker keeps nothing of this device"
    return report({"removed": removed}, [line], json=options.json)
