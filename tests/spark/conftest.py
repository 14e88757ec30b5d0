"""One Spark session for all tests here."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kafkafmt.spark.session import make_session


@pytest.fixture(scope="session")
def spark():
    session = make_session(
        "local[2]",
        "kafkafmt tests",
        **{
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.session.timeZone": "UTC",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        },
    )
    yield session
    session.stop()
