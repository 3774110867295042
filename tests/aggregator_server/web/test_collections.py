"""Full collections of garbage stop every answer of a server. They are few while a fleet is connected."""

import pytest

from tests.support.checkout import run_python

PROGRAM = """
import gc
from aggregator_server.web import server
{}
before = [one["collections"] for one in gc.get_stats()]
kept = [[] for _ in range(400_000)]  # as many connections, tasks and requests are
print(*(after["collections"] - count for after, count in zip(gc.get_stats(), before)))
"""


@pytest.mark.parametrize(("start", "few"), [("server._collect_less()", True), ("", False)])
def test_what_connections_hold_leads_to_no_full_collection(start, few):
    _, middle, full = map(int, run_python("-c", PROGRAM.format(start)).split())
    assert middle > 40
    assert (full == 0) is few
