"""A daemon that changes its front end while it runs remembers its room by the new one from then on."""

import threading

from edge_client.config.sections import DetectorConfig
from edge_client.daemon.daemon import Daemon
from edge_client.room.memory import layout_of
from edge_client.room.store import read_sample
from fleet_protocol.bundle import read_bundle
from fleet_protocol.ready_bundles import find_bundle
from tests.support.edge_process import wait_for
from tests.support.sounds import write_clips
from tests.support.taught_device import Device


def test_a_change_of_the_front_end_needs_no_restart_for_another_memory_of_the_room(tmp_path):
    write_clips(tmp_path / "played", "yes", 2, seed=1)
    device = Device(tmp_path, "base", microphone=f'backend = "file"\nfile = "{tmp_path / "played"}"')
    stop = threading.Event()
    daemon = Daemon(device.config, tmp_path / "edge.toml", stop)
    thread = threading.Thread(target=daemon.run, daemon=True)
    thread.start()
    try:
        wait_for(lambda: (heard := daemon.status()["listening"]) and heard["windows"], what="the first window")
        daemon.follow("base_int8")
        begun = daemon.status()["listening"]["windows"]
        wait_for(lambda: daemon.status()["listening"]["windows"] > begun, what="the new front end")
    finally:
        stop.set()
        thread.join(60)
    layout = layout_of(read_bundle(find_bundle("base_int8")).manifest, DetectorConfig())
    assert read_sample(device.state.room_path, layout) is not None
