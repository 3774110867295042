"""What `pip install auricle` puts into a user's environment: the product's packages, whole, and nothing else."""

import tomllib

from setuptools import find_namespace_packages

from tests.support.checkout import ROOT

PRODUCT = {"aggregator_server", "edge_client", "fleet_protocol", "fleet_simulator", "model_export"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETUPTOOLS = PROJECT["tool"]["setuptools"]


def installed() -> set[str]:
    """The packages as setuptools finds them; in pyproject.toml it looks for namespace packages unless told not to."""
    return set(find_namespace_packages(str(ROOT), **SETUPTOOLS["packages"]["find"]))


def test_the_top_level_packages_are_the_product_s():
    assert {name.partition(".")[0] for name in installed()} == PRODUCT


def test_every_module_of_the_product_is_installed():
    folders = {path.parent for package in PRODUCT for path in (ROOT / package).rglob("*.py")}
    assert {".".join(folder.relative_to(ROOT).parts) for folder in folders} <= installed()


def test_every_package_is_typed_and_no_other_files_come_along():
    expected = {name: ["py.typed"] for name in PRODUCT}
    expected["edge_client"] += ["bundles/*.auricle", "bundles/catalogue.json", "front_ends/*.frontend"]
    expected["edge_client"] += ["front_ends/*.txt"]
    expected["edge_client"] += ["owner_page/templates/*.html", "owner_page/static/*"]
    expected["fleet_simulator"] += ["experiment/example.toml"]
    expected["aggregator_server"] += [
        f"web/dashboard/{name}" for name in ("templates/*", "static/*", "static/vendor/*", "locale/*/LC_MESSAGES/*.mo")
    ]
    assert expected == SETUPTOOLS["package-data"]
    assert all((ROOT / name / "py.typed").is_file() for name in PRODUCT)


def test_every_program_is_in_a_package_that_is_installed():
    modules = {target.partition(":")[0] for target in PROJECT["project"]["scripts"].values()}
    assert {module.rpartition(".")[0] for module in modules} <= PRODUCT
