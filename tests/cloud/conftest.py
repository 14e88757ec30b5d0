"""Provide an S3 server on loopback that contains the logs of the tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from object_server import Proxy
    from obstore.store import S3Store

collect_ignore_glob = []
if not os.environ.get("CI") and not all(map(find_spec, ("obstore", "fsspec", "moto"))):
    collect_ignore_glob = ["test_*.py"]  # `make setup` installs these packages


@pytest.fixture(scope="session")
def proxy() -> Iterator[Proxy]:
    """Run an S3 server and a proxy, and let this process and its children use the proxy."""
    from object_server import Proxy, environment, s3_server

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
    from object_server import BUCKET
    from obstore.store import S3Store

    return S3Store(BUCKET, endpoint=proxy.url, client_options={"allow_http": True})


@pytest.fixture(autouse=True)
def _undisturbed(proxy: Proxy) -> Iterator[None]:
    """Reset the proxy before and after each test, so that tests do not affect each other."""
    proxy.forget()
    yield
    proxy.delay = proxy.failing = 0.0
    proxy.most = None
