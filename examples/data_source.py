"""Read Kafka's log directories as a Spark DataFrame, without a broker.

python examples/data_source.py /var/lib/kafka/data [TOPIC]
"""

import sys

from kafkafmt.spark import make_session

path, *topic = sys.argv[1:]

spark = make_session()  # any Spark session can be used, because Spark finds the data source if kafkafmt is installed
logs = spark.read.format("kafkafmt").option("includeHeaders", "true")
if topic:
    logs = logs.option("subscribe", topic[0])

df = logs.load(path)
df.groupBy("topic", "partition").count().orderBy("topic", "partition").show()
df.selectExpr("topic", "offset", "timestamp", "cast(key as string) key", "cast(value as string) value", "headers").show(
    5
)

# A schema selects columns. Other columns are not decoded, which saves most of the time if the logs are large.
values = logs.schema("value binary").load(path)
values.selectExpr("count(*) records", "sum(length(value)) bytes").show()
spark.stop()
