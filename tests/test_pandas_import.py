"""Test that reading and exporting do not import pandas, which takes almost a second if it is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from golden_cases import case

pytest.importorskip("pyarrow")

PROGRAMS = {
    "to_arrow": "kafkafmt.open(source).to_arrow()",
    "export to one file": "kafkafmt.export(source, output + '/t.parquet', engine='local')",
    "export to a directory": "kafkafmt.export(source, output + '/out', engine='local')",
    "export without records": "kafkafmt.export(source, output + '/out', engine='local', start=0, end=0)",
    "scan_polars": "kafkafmt.scan_polars(source).collect()",
    "columns of integers": "kafkafmt.records.columns_of(value=[b'a'], timestamp=pyarrow.Array.from_buffers("
    "pyarrow.int64(), 1, [None, pyarrow.py_buffer(bytes(8))]))",
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.slow
def test_pandas_is_not_imported(name: str, tmp_path: Path) -> None:
    program = f"""
import sys
import kafkafmt, pyarrow
source, output = sys.argv[1:]
{PROGRAMS[name]}
print("pandas" in sys.modules)
"""
    command = [sys.executable, "-c", program, str(case("segments").roots[0]), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
