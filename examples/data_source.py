"""Kafka's log directories as a Spark DataFrame, with no broker and no JVM of Kafka's.

python examples/data_source.py /var/lib/kafka/data [TOPIC]
"""

import sys

from kafkafmt.spark import make_session

path, *topic = sys.argv[1:]

spark = make_session()  # any session will do: Spark finds the format by itself where kafkafmt is installed
logs = spark.read.format("kafkafmt").option("includeHeaders", "true")
if topic:
    logs = logs.option("subscribe", topic[0])

df = logs.load(path)
df.groupBy("topic", "partition").count().orderBy("topic", "partition").show()
df.selectExpr("topic", "offset", "timestamp", "cast(key as string) key", "cast(value as string) value", "headers").show(
    5
)

# Only what is named here is decoded and handed to Spark: for large logs it makes all the difference.
values = logs.schema("value binary").load(path)
values.selectExpr("count(*) records", "sum(length(value)) bytes").show()
spark.stop()
