"""What all tests share: the fixture that runs a test on both cores."""

import importlib
import os
import sys

import pytest

pytest_plugins = ["ci_skips"]

CORES = {"native": "kafkafmt._core", "pure": "kafkafmt._pure"}


@pytest.fixture(params=CORES)
def core(request):
    """Each core in turn. Without a native one its tests are skipped, in CI they fail."""
    return load_core(request.param)


@pytest.fixture
def package(core, monkeypatch):
    """The whole package on each core in turn."""
    for name, module in list(sys.modules.items()):
        if name.startswith("kafkafmt.") and hasattr(module, "core"):
            monkeypatch.setattr(module, "core", core)
    return core


@pytest.fixture
def native():
    return load_core("native")


@pytest.fixture
def pure():
    return load_core("pure")


def load_core(name):
    try:
        return importlib.import_module(CORES[name])
    except ImportError as error:
        missing = f"the {name} core cannot be imported: {error}"
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)
