"""Provide fixtures that run a test on both cores, and mark the slow tests."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytest_plugins = ["ci_skips"]
collect_ignore = ["golden"]  # thousands of files, none of them a test
TESTS = Path(__file__).parent
SLOW_FOLDERS = {"broker", "cloud", "spark"}
WITH_OTHER_CLIENTS = {"test_clients.py", "test_groups_clients.py"}
"""Modules that import other Kafka clients, which `make setup` does not install."""
RARE_ON_SPARK = {
    "test_contradicting_index.py", "test_export_blind.py", "test_odd_offsets_in_tasks.py", "test_stream_changed_segments.py",
}  # fmt: skip
"""Modules about logs that change or contradict themselves while Spark reads them. They take minutes."""
WHOLE_LOGS = {"cli", "log"}
"""Folders that test whole logs. The pure core, which tests/core compares with the native core, is slow there."""

# A shell starts a background process with SIGINT ignored, and its child processes inherit this. The
# tests that send SIGINT to a command would then wait forever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Spark in the tests runs only short jobs. Compiling their bytecode with C2 takes longer than it saves.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import modules whose tests are all slow if slow tests are left out."""
    if config.option.markexpr != "not slow":
        return None
    slow = collection_path.parent == TESTS and collection_path.name in SLOW_FOLDERS
    return True if slow or collection_path.name in WITH_OTHER_CLIENTS else None


@pytest.hookimpl(tryfirst=True)  # before pytest selects tests by their markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.name in RARE_ON_SPARK and item.path.parent.name in ("spark", "export"):
            item.add_marker("full")
        if is_slow(item):
            item.add_marker("slow")
    # At the end of a run, a worker takes tests from the other one. Both would start Spark, which takes longest to start.
    items.sort(key=lambda item: item.path.name != "test_mission.py")


def is_slow(item: pytest.Item) -> bool:
    """Return whether a test starts Java or many processes, or takes long for another reason."""
    folder = item.path.relative_to(TESTS).parts[0]
    parameters = (
        item.callspec.params.values() if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ()
    )
    return (
        folder in SLOW_FOLDERS
        or item.path.name in WITH_OTHER_CLIENTS
        or "spark" in getattr(item, "fixturenames", ())
        or any(item.get_closest_marker(name) for name in ("broker", "full"))
        or (folder in WHOLE_LOGS and any(value == "pure" for value in parameters if isinstance(value, str)))
    )


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
