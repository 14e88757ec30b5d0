"""Check that the native core cannot be imported if its constants differ from constants.py."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import kafkafmt
from kafkafmt._pure import damaged
from kafkafmt.log.damage import parts

pytest.importorskip("kafkafmt._core")
PACKAGE = Path(kafkafmt.__file__).parent
LAYOUT = PACKAGE / "_corelib" / "layout.pxi"

IMPORT_CORE = """
import sys, types
package = types.ModuleType("kafkafmt")          # kafkafmt/__init__.py would import the core itself
package.__path__ = [{package!r}]
sys.modules["kafkafmt"] = package
from kafkafmt import constants
{change}
try:
    from kafkafmt import _core
except ImportError as error:
    print(error)
"""

CHANGE_ALL = """
for name, value in list(vars(constants).items()):
    if name.isupper() and not name.startswith("_"):
        if type(value) is int:
            setattr(constants, name, value + 1)
        elif type(value) is tuple and type(value[0]) is int:
            setattr(constants, name, tuple(n + 1 for n in value))
"""

NAMES_IN_CONSTANTS = {
    "LEADER_EPOCH_AT": "LEADER_EPOCH_AT",
    "LEGACY_KEY_AT_V0": "LEGACY_KEY_AT",
    "LEGACY_KEY_AT_V1": "LEGACY_KEY_AT",
    "MIN_LENGTH_V1": "MIN_LENGTHS",
    "MAX_INT32": "MAX_RELATIVE_OFFSET",
    "MAX_BATCH_SIZE": "MAX_BATCH_LENGTH",
}
"""Names in layout.pxi that constants.py does not contain, and the constant that each is checked with."""


def import_core(change: str) -> str:
    """Execute `change` after constants.py, import the native core, and return the ImportError's message or ''."""
    code = IMPORT_CORE.format(package=str(PACKAGE), change=change)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_core_is_imported_if_the_constants_agree() -> None:
    assert import_core("") == ""


def test_import_error_names_the_constant_that_differs() -> None:
    error = import_core("constants.COUNT_AT = 58")
    assert error == "the native core was built for other constants; rebuild it: COUNT_AT is 57, constants.py has 58\n"


def test_import_fails_if_a_constant_is_missing() -> None:
    assert "CRC_START is 21, constants.py has None" in import_core("del constants.CRC_START")


@pytest.mark.skipif(not LAYOUT.exists(), reason="the sources of the native core are not installed")
def test_every_constant_of_the_core_is_checked() -> None:
    enum = LAYOUT.read_text(encoding="utf-8").split("cdef extern")[0]
    names = {NAMES_IN_CONSTANTS.get(name, name) for name in re.findall(r"^    ([A-Z]\w+) = ", enum, re.MULTILINE)}
    reported = set(re.findall(r"(\w+) is ", import_core(CHANGE_ALL)))
    assert len(names) > 80
    assert names | {"MAX_MILLIS", "MICROS_BEYOND", "MICROS_NONE"} <= reported


def test_numbers_of_problems_are_those_of_the_damaged_spans() -> None:
    for name in ("WRAPPER_PROBLEM", "DELTA_PROBLEM"):
        assert getattr(damaged, name) == getattr(parts, name)
