"""What a device recognises before a round and with its result, as it reports it (docs/protocol.md)."""

from __future__ import annotations

from collections.abc import Mapping

from aggregator_server.schemas import Recognised, RecognitionInfo

# As edge_client.learning.rounds.guard names them.
_KINDS: dict[str, Recognised] = {"held_out": "own", "taught": "taught", "public": "public"}


def recognition_of(metrics: Mapping[str, float]) -> tuple[RecognitionInfo, ...]:
    """Return what a report of what was learned says of a device before and after, own clips first.

    Args:
        metrics: of the report, in %. One of an older device says 0 % of the model before, although there was none: such
            a model knew no class.
    """
    classes_before = metrics.get("classes_before")
    return tuple(
        RecognitionInfo(
            of=of,
            before=None if classes_before == 0 else metrics.get(f"{name}_before"),
            after=metrics[f"{name}_after"],
            classes_before=_whole(classes_before),
            classes_after=_whole(metrics.get("classes_after")),
        )
        for name, of in _KINDS.items()
        if f"{name}_after" in metrics
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
