"""Read from Azure's emulator, and publish an export there."""

from __future__ import annotations

import base64
import hashlib
import hmac
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from bucket_exports import export, is_complete, objects
from golden_cases import CASES
from object_server import upload
from obstore.store import AzureStore

import kafkafmt
from kafkafmt.exporting.errors import OutputExistsError
from kafkafmt.support.paths import UrlPath

EMULATOR = shutil.which("azurite-blob")
pytestmark = [
    pytest.mark.emulator,
    pytest.mark.skipif(EMULATOR is None, reason="azurite-blob is not installed: npm install -g azurite"),
]
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account of every emulator, which its documentation names."""


@pytest.fixture
def container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run the emulator, and return the URL of a container."""
    assert EMULATOR is not None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [EMULATOR, "--silent", "--disableTelemetry", "--skipApiVersionCheck", "--location", str(tmp_path)]
    server = subprocess.Popen([*command, "--blobPort", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        endpoint = f"http://127.0.0.1:{port}"
        _create_container(endpoint, "logs")
        for name, value in {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_USE_EMULATOR": "true",
            "AZURITE_BLOB_STORAGE_URL": endpoint,
            "AZURE_ALLOW_HTTP": "true",
        }.items():
            monkeypatch.setenv(name, value)
        yield "az://logs"
    finally:
        server.terminate()
        server.wait()


def _create_container(endpoint: str, name: str) -> None:
    date = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    path = f"/{ACCOUNT}/{ACCOUNT}/{name}"
    text = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:2021-08-06\n{path}\nrestype:container"
    signature = base64.b64encode(hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()).decode()
    headers = {"x-ms-date": date, "x-ms-version": "2021-08-06", "Authorization": f"SharedKey {ACCOUNT}:{signature}"} | {
        "Content-Length": "0"
    }
    url = f"{endpoint}/{ACCOUNT}/{name}?restype=container"
    deadline = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(urllib.request.Request(url, headers=headers, method="PUT"))
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return


def test_azure_is_read_and_written(container: str) -> None:
    (case,) = (c for c in CASES if c.name == "transactions" and c.folder.parent.name.startswith("kafka-4"))
    upload(AzureStore.from_url(container), case.folder / "log", "golden")
    found, local = kafkafmt.open(f"{container}/golden"), kafkafmt.open(case.folder / "log")
    for p in local:
        assert found[p.topic, p.partition].to_arrow().equals(p.to_arrow())
    assert kafkafmt.verify(f"{container}/golden").ok
    with pytest.raises(FileNotFoundError):
        kafkafmt.open(f"{container}/missing")
    output = UrlPath(f"{container}/out")
    export(output, b"one")
    with pytest.raises(OutputExistsError):
        export(output, b"two")
    assert is_complete(objects(output), b"one")
    export(output, b"two", overwrite=True)
    assert is_complete(objects(output), b"two")
