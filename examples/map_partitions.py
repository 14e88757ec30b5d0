"""Count records by key inside `mapPartitions`. Only the counts leave the executors.

python examples/map_partitions.py PATH…          .log files, partition directories or log directories
"""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from operator import add

import kafkafmt


def records_by_key(paths: Iterable[str]) -> Iterator[tuple[bytes | None, int]]:
    counts: Counter[bytes | None] = Counter()
    for path in paths:
        for partition in kafkafmt.open(path):
            for record in partition:
                counts[record.key] += 1
    yield from counts.items()


if __name__ == "__main__":
    from kafkafmt.spark import make_session

    spark = make_session()
    paths = spark.sparkContext.parallelize(sys.argv[1:], len(sys.argv) - 1)
    counts = paths.mapPartitions(records_by_key).reduceByKey(add)
    for key, count in counts.takeOrdered(10, key=lambda pair: -pair[1]):
        print(count, key)
    spark.stop()
