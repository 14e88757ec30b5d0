"""Compare decoding in the data source and in the export with Spark's Kafka source and `from_avro`, in turns.

    python benchmarks/spark_from_avro.py [--records 1000000] [--rounds 5] [--save]

A producer writes Avro values with 10 fields and the 5-byte prefix of Confluent's serializers to a real
broker. Spark's Kafka source reads them from the broker, and `from_avro` decodes them after the prefix.
kafkafmt reads the same files, and the schema in the topic `_schemas`. Both have two cores.

All jobs run once before the measurement. All times are wall-clock times.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(Path(__file__).resolve().parent), *(str(ROOT / "tests" / name) for name in ("broker", "support"))]

import confluent_kafka  # noqa: E402
import fastavro  # noqa: E402
import java_tools  # noqa: E402
import report  # noqa: E402
import spark_kafka  # noqa: E402
from kafka_broker import FAST_JVM, Broker  # noqa: E402
from spark_kafka_source import jars, measure  # noqa: E402
from test_values import MILLIS, avro, nullable, value_of  # noqa: E402

import kafkafmt  # noqa: E402
import kafkafmt.spark  # noqa: E402
from kafkafmt.spark.session import make_session  # noqa: E402

TOPIC = "orders"
SCHEMA = avro(
    "Order",
    id="long",
    customer="string",
    amount="double",
    time=MILLIS,
    country=nullable("string"),
    count="int",
    state={"type": "enum", "name": "State", "symbols": ["NEW", "PAID", "SENT"]},
    paid="boolean",
    note=nullable("string"),
    address=avro("Address", zip="string", latitude="double"),
)
DIFFERENT = 20_000
"""Number of different values. They are repeated."""
SPARK_AVRO = "org.apache.spark:spark-avro_2.13:" + spark_kafka.CONNECTOR.rpartition(":")[2]
PAIRS = {
    "decoded to the `noop` sink": ("from_avro to noop", "data source to noop"),
    "2 of 10 fields to the `noop` sink": ("from_avro, 2 fields to noop", "data source, 2 fields to noop"),
    "decoded to Parquet (zstd)": ("from_avro to Parquet", "export to Parquet"),
}


def write(broker: Broker, records: int) -> None:
    """Write the values, and the record of their schema."""
    rng = random.Random(1)
    parsed = fastavro.parse_schema(SCHEMA)
    values = []
    for _ in range(DIFFERENT):
        out = io.BytesIO(b"\0\0\0\0\1")
        out.seek(0, io.SEEK_END)
        fastavro.schemaless_writer(out, parsed, value_of(SCHEMA, rng))
        values.append(out.getvalue())
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap, "linger.ms": 100, "queue.buffering.max.messages": 200_000}
    )
    key = {"keytype": "SCHEMA", "subject": f"{TOPIC}-value", "version": 1, "magic": 1}
    value = {"subject": f"{TOPIC}-value", "version": 1, "id": 1, "schema": json.dumps(SCHEMA), "deleted": False}
    producer.produce("_schemas", json.dumps(value).encode(), json.dumps(key).encode())
    for n in range(records):
        producer.produce(TOPIC, values[n % DIFFERENT], b"%010d" % n)
        if n % 100_000 == 0:
            producer.flush()
    if producer.flush(120):
        raise SystemExit("the broker did not accept all records")


def jobs(spark: Any, path: Path, out: Path, address: str) -> dict[str, Callable[[], Any]]:
    """Return a function for each job that is measured."""
    from pyspark.sql import functions as f
    from pyspark.sql.avro.functions import from_avro

    ours = spark.read.format("kafkafmt").options(subscribe=TOPIC, decode="value").load(str(path))
    options = {"kafka.bootstrap.servers": address, "subscribe": TOPIC, "startingOffsets": "earliest"}
    tasks = str(ours.rdd.getNumPartitions())
    kafka = spark.read.format("kafka").options(minPartitions=tasks, **options).load()
    body = f.expr("substring(value, 6, length(value) - 5)")
    decoded = kafka.withColumn("value", from_avro(body, json.dumps(SCHEMA)))
    [[row], [other]] = [df.where("offset = 7").collect() for df in (ours.drop("value_error", "value_raw"), decoded)]
    assert row == other, (row, other)
    two = ["value.id", "value.country"]
    ours_two = kafkafmt.spark.read(spark, path, topics=TOPIC, decode="value", columns=two).select(two)
    decoded_two = decoded.select(two)
    parquet = decoded.write.option("compression", "zstd").mode("overwrite")
    return {
        "data source to noop": lambda: ours.write.format("noop").mode("overwrite").save(),
        "from_avro to noop": lambda: decoded.write.format("noop").mode("overwrite").save(),
        "data source, 2 fields to noop": lambda: ours_two.write.format("noop").mode("overwrite").save(),
        "from_avro, 2 fields to noop": lambda: decoded_two.write.format("noop").mode("overwrite").save(),
        "export to Parquet": lambda: kafkafmt.export(
            path, out / "ours", topics=TOPIC, decode="value", engine="spark", overwrite=True
        ),
        "from_avro to Parquet": lambda: parquet.parquet(str(out / "kafka")),
    }


def main() -> None:
    """Measure all jobs, and print their speeds and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--save", action="store_true", help="save the ratios in results.json and RESULTS.md")
    given = parser.parse_args()
    out = Path(tempfile.mkdtemp())
    classpath = java_tools.classpath(SPARK_AVRO).split(os.pathsep)
    avro_jars = [path for path in classpath if Path(path).name.startswith("spark-avro")]
    try:
        with Broker(out / "broker", {"auto.create.topics.enable": "true"}, jvm=FAST_JVM) as broker:
            write(broker, given.records)
            spark = make_session("local[2]", "benchmark", **{"spark.jars": ",".join([jars(), *avro_jars])})
            times = measure(jobs(spark, broker.log_dirs[0], out, broker.bootstrap), given.rounds)
            spark.stop()
    finally:
        shutil.rmtree(out)
    for name, seconds in times.items():
        low, middle, high = min(seconds), statistics.median(seconds), max(seconds)
        print(f"{name}: {given.records / 1e6 / middle:.2f} M rows/s, {middle:.2f} s ({low:.2f} to {high:.2f})")
    for case, (peer, ours) in PAIRS.items():
        low, ratio, high = report.quartiles([a / b for a, b in zip(times[peer], times[ours], strict=True)])
        print(f"{peer} / {ours}: {ratio:.2f} ({low:.2f} to {high:.2f})")
        speeds = [given.records / 1e6 / statistics.median(times[name]) for name in (ours, peer)]
        figures = (speeds[0], "Spark's Kafka source and from_avro", speeds[1], "M rows/s", ratio, low, high)
        report.ROWS.append(report.Row("export", case, *figures))
    if given.save:
        report.save(report.ROWS)


if __name__ == "__main__":
    main()
