"""Test schemas in a bucket."""

from __future__ import annotations

from pathlib import Path

from command import inside
from object_server import BUCKET, upload
from obstore.store import S3Store
from schema_records import schema, write_schemas

import kafkafmt as k


def test_schemas_in_a_bucket_are_read(bucket: S3Store, tmp_path: Path) -> None:
    data = write_schemas(tmp_path / "data", [schema("a", 1, 1, '"int"'), schema("a", 2, 2, '"long"')])
    assert inside("schemas", data, "--save", tmp_path / "saved").returncode == 0
    upload(bucket, data, "schemas/data")
    upload(bucket, tmp_path / "saved", "schemas/saved")
    url = f"s3://{BUCKET}/schemas"
    registry = k.schemas(data)
    for source in (f"{url}/data", f"{url}/data/_schemas-0", k.open(f"{url}/data"), f"{url}/saved"):
        assert list(k.schemas(source)) == list(registry), source
    assert [v.subject for v in k.schemas(f"{url}/saved/a")] == ["1", "2"]
    assert inside("schemas", f"{url}/data", "a/latest").stdout == '"long"\n'
    assert inside("schemas", f"{url}/missing").returncode == 3
