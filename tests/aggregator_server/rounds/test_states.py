"""A round's state: its values stand in one place, and only rounds/ reads and writes it."""

import ast
from typing import get_args

from aggregator_server.store import tables
from fleet_protocol.messages import RoundState
from tests.support.checkout import ROOT

PACKAGE = ROOT / "aggregator_server"
TABLES = PACKAGE / "store" / "tables.py"


def nodes():
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            yield path, node


def test_the_tables_name_the_states_of_the_protocol():
    assert get_args(RoundState) == (tables.OPEN, tables.DONE, tables.FAILED)


def test_no_other_module_spells_a_state():
    states = get_args(RoundState)
    spelt = {path for path, node in nodes() if isinstance(node, ast.Constant) and node.value in states}
    assert spelt == {TABLES}


def test_only_the_rounds_compare_the_column():
    compared = {
        path.relative_to(PACKAGE).as_posix()
        for path, node in nodes()
        if isinstance(node, ast.Attribute) and node.attr == "state" and ast.unparse(node.value) == "RoundRow"
    }
    assert compared == {"rounds/states.py", "rounds/views/replies.py", "web/metrics.py"}  # which show and count it
