"""Provide one real broker for the tests of the wire protocol."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka_broker import Broker


@pytest.fixture(scope="package")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker
