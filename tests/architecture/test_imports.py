"""The import rules of docs/architecture.md: who may import what, and what stays out of a device's memory."""

import ast
import json
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.support.checkout import ROOT, run_python

STDLIB = set(sys.stdlib_module_names) | {"_typeshed"}  # the latter for type checkers alone
BASE = {"numpy", "safetensors", "dacite"}
ALLOWED = {
    "fleet_protocol": BASE | {"argcomplete", "httpx", "cryptography"},
    "edge_client": BASE
    | {"fleet_protocol", "httpx", "soundfile", "paho", "rich"}
    | {"wyoming", "starlette", "uvicorn", "jinja2", "apprise", "segno"},
    "aggregator_server": BASE
    | {"fleet_protocol", "fastapi", "starlette", "pydantic", "sqlalchemy", "alembic", "uvicorn", "kmedoids", "anyio"}
    | {"httpx", "cryptography", "segno", "prometheus_client", "rich", "jinja2", "markupsafe"}
    | {"obstore", "psycopg"},
    "model_export": BASE | {"fleet_protocol", "edge_client", "jax", "tensorflow", "keras", "ai_edge_litert", "PIL"},
}
PACKAGES = {*ALLOWED, "fleet_simulator", "benchmarks", "demo", "studies"}


def imported_by(path: Path) -> set[str]:
    """What a file imports, by dotted names, also inside functions and for type checkers alone."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports from the root"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_a_package_imports_only_what_its_house_allows(package):
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    foreign = {
        str(path.relative_to(ROOT)): extra
        for path in files
        if (extra := {name.split(".")[0] for name in imported_by(path)} - STDLIB - ALLOWED[package] - {package})
    }
    assert foreign == {}


def test_of_the_shared_package_private_rounds_alone_use_cryptography():
    users = {path.parent.name for path in (ROOT / "fleet_protocol").rglob("*.py") if "cryptography" in path.read_text()}
    assert users == {"secure_sums"}


def modules_of(package: str) -> dict[str, Path]:
    """The modules of a package by their dotted names; that of a folder's ``__init__.py`` ends in ``.__init__``."""
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in (ROOT / package).rglob("*.py")}


def imported_modules(path: Path, modules: dict[str, Path]) -> set[str]:
    """Those modules of a package that a file imports."""
    found = set()
    for name in imported_by(path):  # a module, a folder, or something in one of these
        owner = name.rpartition(".")[0]
        candidates = (name, f"{name}.__init__", owner, f"{owner}.__init__")
        found |= {next((module for module in candidates if module in modules), "")}
    return found - {""}


def imports_between_siblings(package: str) -> dict[str, dict[str, set[str]]]:
    """At each level of a package: which of its modules and folders import which; a folder counts as one."""
    modules = modules_of(package)
    graphs = {}
    for module, path in modules.items():
        for target in imported_modules(path, modules):
            one, other = module.split("."), target.split(".")
            depth = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
            if depth is not None:
                graph = graphs.setdefault(".".join(one[:depth]), {})
                graph.setdefault(one[depth], set()).add(other[depth])
    return graphs


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_no_two_siblings_of_a_folder_import_each_other_in_a_circle(package):
    circles = {}
    for folder, graph in imports_between_siblings(package).items():
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            circles[folder] = " -> ".join(reversed(error.args[1]))
    assert circles == {}


def loaded_by(statement: str) -> set[str]:
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted({{m.split('.')[0] for m in sys.modules}})))"
    return set(json.loads(run_python("-c", code).splitlines()[-1]))


@pytest.mark.parametrize("package", ["edge_client", "aggregator_server", "fleet_protocol"])
def test_importing_every_module_of_a_package_loads_nothing_heavy(package):
    modules = [name for name in sorted(modules_of(package)) if not name.endswith((".__init__", ".__main__"))]
    loaded = loaded_by("\n".join(f"import {module}" for module in modules))
    heavy = {"jax", "tensorflow", "keras", "torch", "sklearn", "sklearn_extra", "scipy", "matplotlib"}
    if package != "aggregator_server":
        heavy |= {"pydantic", "fastapi", "sqlalchemy", "kmedoids", "paho", "cryptography"}
    assert loaded & heavy == set()


METHODS = "from aggregator_server.strategies.plans import known_settings, strategies; strategies()"


@pytest.mark.parametrize(
    ("statement", "others"),
    [
        ("import edge_client.cli", {"soundfile", "httpx", "paho"}),
        ("import aggregator_server.cli", {"sqlalchemy", "alembic", "pydantic", "fastapi", "uvicorn", "cryptography"}),
        ("import aggregator_server.web.process", {"obstore", "psycopg", "psycopg_binary"}),
        (f"import aggregator_server.web.app\n{METHODS}\nknown_settings('local')", {"edge_client"}),
    ],
)
def test_what_is_not_needed_yet_is_not_loaded(statement, others):
    assert loaded_by(statement) & others == set()
