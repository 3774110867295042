"""Metrics for Prometheus."""

from __future__ import annotations

import time

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST

from aggregator_server.web.metrics import write_metrics
from aggregator_server.web.routes.access import CurrentService, Viewer

router = APIRouter()


# Not of the schema: its body is Prometheus' own, and docs/monitoring.md lists what is in it.
@router.get("/metrics", dependencies=[Viewer], include_in_schema=False)
def metrics(service: CurrentService) -> Response:
    """Return how the fleet is, in Prometheus' text format. Prometheus sends the token of a viewer."""
    return Response(write_metrics(service.store, time.time()), media_type=CONTENT_TYPE_LATEST)
