"""What all tests of pretraining share."""

import sys

import pytest


@pytest.fixture(scope="package", autouse=True)
def environment(tmp_path_factory):
    """Work on processors; let what one test or program compiled serve the next."""
    compiled = str(tmp_path_factory.mktemp("compiled"))
    jax = sys.modules.get("jax")  # where a test of it was collected; the light part has none
    if jax:
        jax.config.update("jax_compilation_cache_dir", compiled)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
        patch.setenv("JAX_PLATFORMS", "cpu")
        patch.setenv("JAX_COMPILATION_CACHE_DIR", compiled)
        yield
    if jax:
        jax.config.update("jax_compilation_cache_dir", None)
