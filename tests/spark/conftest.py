"""Provide one Spark session for all tests of the data source."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kafkafmt.spark.session import make_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
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
