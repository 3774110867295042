"""What the status says of a device, as metrics for Prometheus, at an address that the owner asked for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from edge_client.errors import ConfigError
from fleet_protocol.command_line import version

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from prometheus_client.registry import Collector

    from edge_client.config.sections import MetricsConfig

log = logging.getLogger(__name__)

Status = Callable[[], dict[str, Any]]

# Of the part `listening` of the status: name there, name as a metric, what it is, whether it only grows.
_LISTENING = (
    ("frames", "auricle_frames", "Frames that the microphone gave.", True),
    ("overflows", "auricle_overflows", "Frames that were lost because the detector fell behind.", True),
    ("reopened", "auricle_microphone_reopened", "Times that the microphone was opened anew.", True),
    ("windows", "auricle_windows", "Windows that were classified.", True),
    ("gated", "auricle_windows_gated", "Windows that were too quiet to be classified.", True),
    ("latency_ms", "auricle_latency_ms", "Median time from a window's last sample to its scores, ms.", False),
    ("real_time_factor", "auricle_real_time_factor", "Share of the time that classification takes.", False),
    ("last_frame_age_s", "auricle_last_frame_age_seconds", "Time since the microphone gave a frame.", False),
    ("level_db", "auricle_level_db", "Level of the newest window, dB full scale.", False),
)


class MetricsServer:
    """Answers ``GET /metrics``; no name of a label and nothing of a sound is in it."""

    def __init__(self, config: MetricsConfig, status: Status) -> None:
        """Open the address.

        Raises ConfigError if the extra `metrics` is not installed, or the address is taken or not this machine's.
        """
        try:
            from prometheus_client import CollectorRegistry, start_http_server
        except ImportError as error:
            raise ConfigError("[metrics] needs: pip install 'auricle[metrics]'") from error
        registry = CollectorRegistry()
        registry.register(cast("Collector", _Collector(status)))  # which has its methods; the class is not loaded here
        try:
            self._server, _ = start_http_server(config.port, config.address, registry)
        except OSError as error:
            raise ConfigError(f"[metrics] {config.address}:{config.port} cannot be opened: {error.strerror}") from error
        self.port: int = self._server.server_port
        log.info("metrics at http://%s:%d/metrics", config.address, self.port)

    def close(self) -> None:
        """Close the address."""
        self._server.shutdown()
        self._server.server_close()


class _Collector:
    def __init__(self, status: Status) -> None:
        self._status = status

    def describe(self) -> Iterable[Metric]:
        """Return nothing: asking for the status before the daemon runs would be too early."""
        return ()

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily

        status = self._status()
        model, board, training, inputs = (status[name] for name in ("model", "board", "training", "inputs"))
        about = {"name": status["name"], "architecture": model["architecture"], "version": version()}
        yield InfoMetricFamily("auricle_device", "The device.", about)
        yield GaugeMetricFamily("auricle_labels", "Sounds that the device knows.", len(model["labels"]))
        well = GaugeMetricFamily("auricle_loop_well", "Whether a loop runs and makes progress.", labels=["loop"])
        restarts = CounterMetricFamily("auricle_loop_restarts", "Times that a loop was restarted.", labels=["loop"])
        for name, loop in status["loops"].items():
            well.add_metric([name], float(loop["state"] == "running" and not loop["stuck"]))
            restarts.add_metric([name], loop["restarts"])
        yield from (well, restarts)
        labels = ["input"] if len(inputs) > 1 else []
        for key, name, meaning, grows in _LISTENING:
            family = (CounterMetricFamily if grows else GaugeMetricFamily)(name, meaning, labels=labels)
            for source, counted in inputs.items():
                if counted is not None and counted[key] is not None:
                    family.add_metric([source][: len(labels)], counted[key])
            if family.samples:
                yield family
        yield CounterMetricFamily("auricle_trained", "Trainings that ended well.", training["trained"])
        yield CounterMetricFamily("auricle_training_failed", "Trainings that failed.", training["failed"])
        if status["server"] is not None:
            reached = float(bool(status["server"]["reachable"]))
            yield GaugeMetricFamily("auricle_aggregator_reached", "Whether the aggregator answered.", reached)
        if board["temperature_c"] is not None:
            yield GaugeMetricFamily("auricle_temperature_celsius", "Of the processor.", board["temperature_c"])
        yield GaugeMetricFamily("auricle_resident_bytes", "Memory of the daemon.", 1e6 * board["resident_mb"])
        damaged = len(status["damage"])
        yield GaugeMetricFamily("auricle_damage", "Damaged files that were found since the start.", damaged)
