"""Provide an S3 server on loopback that contains the logs of the tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

pytest.importorskip("obstore")
pytest.importorskip("moto")

from object_server import BUCKET, Proxy, environment, s3_server
from obstore.store import S3Store


@pytest.fixture(scope="session")
def proxy() -> Iterator[Proxy]:
    """Run an S3 server and a proxy, and let this process and its children use the proxy."""
    before = dict(os.environ)
    with s3_server() as port:
        made = Proxy(port)
        os.environ.update(environment(made.url))
        try:
            yield made
        finally:
            made.close()
            os.environ.clear()
            os.environ.update(before)


@pytest.fixture(scope="session")
def bucket(proxy: Proxy) -> S3Store:
    """Return the bucket of the S3 server."""
    return S3Store(BUCKET, endpoint=proxy.url, client_options={"allow_http": True})


@pytest.fixture(autouse=True)
def _undisturbed(proxy: Proxy) -> Iterator[None]:
    """End the delays and failures of a test after it, and forget its requests."""
    proxy.requests.clear()
    yield
    proxy.delay = proxy.failing = 0.0
