"""Programs whose libraries are not installed say which extra brings them."""

import subprocess
import sys

import pytest

from tests.support.checkout import ROOT

# Stands for an environment without a library: an import finds nothing.
WITHOUT = """
import sys
sys.modules[{library!r}] = None
sys.argv = [{program!r}, *{arguments!r}]
from {package}.cli import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("program", "package", "extra", "library", "arguments"),
    [
        ("auricle-aggregator", "aggregator_server", "server", "sqlalchemy", ["run", "--data", "{folder}"]),
        ("auricle-aggregator", "aggregator_server", "server", "fastapi", ["run", "--data", "{folder}"]),
        ("auricle-sim", "fleet_simulator", "sim", "sqlalchemy", ["run", "{folder}/experiment.toml"]),
        ("auricle-export", "model_export", "export", "tensorflow", ["build", "cnn1", "-o", "{folder}/a.auricle"]),
    ],
)
def test_a_program_without_its_libraries_names_the_extra(tmp_path, program, package, extra, library, arguments):
    (tmp_path / "experiment.toml").write_text("")
    filled = [argument.format(folder=tmp_path) for argument in arguments]
    code = WITHOUT.format(library=library, program=program, package=package, arguments=filled)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=180)
    assert result.returncode == 1
    needs = f"needs: pip install 'auricle[{extra}]'"
    assert result.stderr == f"{program}: the library {library} is not installed; {needs}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["experiment.toml"]


@pytest.mark.parametrize("package", ["aggregator_server", "fleet_simulator", "model_export"])
def test_help_needs_no_extra(package):
    block = "import sys; sys.modules.update(dict.fromkeys(['fastapi', 'sqlalchemy', 'tensorflow', 'httpx']))"
    code = f"{block}; from {package}.cli import main; main(['--help'])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=180)
    assert result.returncode == 0, result.stderr
    assert "COMMAND" in result.stdout or "build" in result.stdout
