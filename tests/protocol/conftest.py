"""What the tests of the wire share: one real broker."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "broker"))

from kafka_broker import Broker


@pytest.fixture(scope="package")
def broker():
    with Broker() as broker:
        yield broker
