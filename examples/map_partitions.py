"""Read the logs at the paths in an RDD with `mapPartitions`, and get the records as Python objects.

`mapPartitions` is slower than the data source and `mapInArrow`. Use it only for code that needs
Record objects.

python examples/map_partitions.py PATH…          .log files, partition directories or log directories
"""

import sys

from kafkafmt.spark import decode_partition, make_session

spark = make_session()
paths = spark.sparkContext.parallelize(sys.argv[1:])

records = paths.mapPartitions(decode_partition(on_error="skip"))
print("records:", records.count())
print("bytes of values:", records.map(lambda record: len(record.value or b"")).sum())
for record in records.take(3):
    print(record)
spark.stop()
