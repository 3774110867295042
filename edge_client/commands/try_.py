"""``try``: a device that hears at once, with synthesised sounds in place of a microphone."""

import argparse
import json
import queue
from pathlib import Path

from edge_client.commands import Commands, set_command

_BUNDLE, _LABELS, _OFFERED = "sounds_2s", ("doorbell", "knock", "bark", "telephone"), "kettle"
_TAUGHT, _PLAYED, _TAKE_S = 6, 3, 2
_PROGRAM = "edge_client.cli"
_READY_S = 120.0


def add(commands: Commands) -> None:
    """Add the command."""
    trial = commands.add_parser("try", help="see a device at work at once: with sample sounds, no microphone needed")
    trial.add_argument("--folder", type=Path, help="keep everything there, and go on with it (a temporary one)")
    trial.add_argument("--port", type=int, default=0, help="of the page (any that is free)")
    trial.add_argument("--no-browser", action="store_true", help="only print the page's address")
    set_command(trial, _try, config=False, json=False)


def _try(options: argparse.Namespace) -> int:
    import edge_client.owner_page.server  # noqa: F401  (what is not installed is said before anything is made)
    from fleet_protocol.ground.child_programs import open_in_browser, trial

    with trial(options.folder) as (folder, programs):
        config = folder / "edge.toml"
        _set_up(folder, config)
        said: queue.SimpleQueue[str] = queue.SimpleQueue()
        events: queue.SimpleQueue[str] = queue.SimpleQueue()
        programs.start("daemon", _PROGRAM, "run", "--config", config, tell=events.put)
        ui = ("ui", "--config", config, "--port", options.port, "--offers", folder / "offered")
        programs.start("page", _PROGRAM, *ui, tell=said.put)
        programs.wait(lambda: not said.empty(), _READY_S)
        url = said.get().rpartition(" ")[2]
        print(f"A device hears sample sounds in place of a microphone: {', '.join(_LABELS)}. It was just taught them.")
        print(f"Teach, on its page, offers a sound that it does not know yet: {_OFFERED}.")
        print(f"Its page: {url} (Ctrl-C here ends it all)")
        print("With your own microphone: auricle-edge init, then auricle-edge run\n", flush=True)
        if not options.no_browser:
            open_in_browser(url)
        while True:
            programs.wait(lambda: not events.empty())
            _show(events.get())
    return 0


def _set_up(folder: Path, config: Path) -> None:
    """Make a device that was taught some sounds and plays others, or go on. Raises ConfigError if it is another."""
    import numpy as np

    from edge_client.clips.importing import import_folder
    from edge_client.config.written import Answers, write_new
    from edge_client.errors import ConfigError
    from edge_client.owner import Teaching
    from fleet_protocol.ground.sample_sounds import RATE_HZ, save, takes

    taught, played, offered = folder / "taught", folder / "played", folder / "offered" / _OFFERED
    if config.exists() and not played.is_dir():
        raise ConfigError(
            f"{config} is a device of your own, so it is left as it is; run it: auricle-edge run --config {config}; or "
            "name another --folder"
        )
    if not config.exists():
        rng = np.random.default_rng(1)
        for number, label in enumerate(_LABELS):
            for take, samples in enumerate(takes(label, _TAUGHT + _PLAYED, _TAKE_S * RATE_HZ, rng)):
                played_as = played / f"{take - _TAUGHT}-{number}-{label}.wav"  # one label after the other, not take
                save(taught / label / f"{take}.wav" if take < _TAUGHT else played_as, samples)
        answers = Answers("try", "state", _BUNDLE, microphone=None, played=played.resolve())
        write_new(config, answers, replace=False)
    if not offered.exists():
        for take, samples in enumerate(takes(_OFFERED, _TAUGHT + _PLAYED, _TAKE_S * RATE_HZ, np.random.default_rng(2))):
            played_as = offered / "played" / f"{take - _TAUGHT}-{len(_LABELS)}-{_OFFERED}.wav"
            save(offered / f"{take}.wav" if take < _TAUGHT else played_as, samples)
    teaching = Teaching.open(config)
    import_folder(taught, None, teaching.store, teaching.settings, teaching.require_slot)


def _show(line: str) -> None:
    from edge_client.events.json_lines import in_words

    event = json.loads(line)
    if event["kind"] == "detected":
        print(in_words(event), flush=True)
