"""Check what happens if there are no credentials for a bucket. No test uses the network."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from command import inside

from kafkafmt.log.storage import bucket_credentials
from kafkafmt.log.storage.bucket_credentials import check_credentials
from kafkafmt.support.paths import UrlPath

KINDS = {"s3": "s3", "gs": "gs", "az": "az", "abfss": "az"}


@pytest.fixture(autouse=True)
def nothing_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove all settings of clouds from the environment."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "GOOGLE_", "AZURE_", "SERVICE_ACCOUNT")) or "METADATA_" in name:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(bucket_credentials, "_MACHINE", tmp_path)


@pytest.mark.parametrize("scheme", KINDS)
def test_missing_credentials_are_an_error(scheme: str) -> None:
    with pytest.raises(PermissionError, match=f"there are no credentials for {scheme}://; set ") as caught:
        check_credentials(UrlPath(f"{scheme}://bucket/x"), scheme)
    assert caught.value.filename == f"{scheme}://bucket/x"


@pytest.mark.parametrize(
    ("scheme", "name"),
    [
        ("s3", "AWS_ACCESS_KEY_ID"),
        ("s3", "AWS_SKIP_SIGNATURE"),
        ("s3", "AWS_WEB_IDENTITY_TOKEN_FILE"),
        ("s3", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
        ("gs", "GOOGLE_APPLICATION_CREDENTIALS"),
        ("gs", "GOOGLE_SERVICE_ACCOUNT_KEY"),
        ("gs", "GOOGLE_SKIP_SIGNATURE"),
        ("az", "AZURE_STORAGE_ACCOUNT_KEY"),
        ("az", "AZURE_STORAGE_SAS_TOKEN"),
        ("abfss", "AZURE_CLIENT_SECRET"),
        ("az", "AZURE_FEDERATED_TOKEN_FILE"),
        ("az", "AZURE_STORAGE_USE_EMULATOR"),
    ],
)
def test_settings_in_the_environment_are_credentials(scheme: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "x")
    monkeypatch.setenv("AZURE_CLIENT_ID", "x")
    with pytest.raises(PermissionError):
        check_credentials(UrlPath(f"{scheme}://bucket/x"), KINDS[scheme])
    monkeypatch.setenv(name, "x")
    check_credentials(UrlPath(f"{scheme}://bucket/x"), KINDS[scheme])


@pytest.mark.parametrize(
    ("scheme", "vendor"), [("s3", "Amazon EC2"), ("gs", "Google"), ("az", "Microsoft Corporation")]
)
def test_machines_in_the_cloud_can_use_a_metadata_service(tmp_path: Path, scheme: str, vendor: str) -> None:
    (tmp_path / "sys_vendor").write_text(f"{vendor}\n")
    check_credentials(UrlPath(f"{scheme}://bucket/x"), scheme)


@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_command_reports_missing_credentials_in_one_line(scheme: str) -> None:
    done = inside("ls", f"{scheme}://user:PW@bucket/x")
    assert done.returncode == 3
    assert done.stderr.startswith(
        f"kafkafmt: {scheme}://(hidden)@bucket/x: there are no credentials for {scheme}://; set "
    )
    assert len(done.stderr.splitlines()) == 1
