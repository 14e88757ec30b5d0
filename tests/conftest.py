"""Provide fixtures that run a test on both cores."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from types import ModuleType

import pytest

pytest_plugins = ["ci_skips"]

# A shell starts a background process with SIGINT ignored, and its child processes inherit this. The
# tests that send SIGINT to a command would then wait forever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

CORES = {"native": "kafkafmt._core", "pure": "kafkafmt._pure"}


@pytest.fixture(params=CORES)
def core(request: pytest.FixtureRequest) -> ModuleType:
    """Return each core. If the native core is missing, skip its tests, or fail them in CI."""
    return load_core(request.param)


@pytest.fixture
def package(core: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Make the whole package use each core in turn."""
    for name, module in list(sys.modules.items()):
        if name.startswith("kafkafmt.") and hasattr(module, "core"):
            monkeypatch.setattr(module, "core", core)
    return core


@pytest.fixture
def native() -> ModuleType:
    return load_core("native")


@pytest.fixture
def pure() -> ModuleType:
    return load_core("pure")


def load_core(name: str) -> ModuleType:
    try:
        return importlib.import_module(CORES[name])
    except ImportError as error:
        missing = f"the {name} core cannot be imported: {error}"
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)
