-- Read Kafka's log directories with SQL alone. Scala, Java and SQL users need no Python program:
--
--     export PYSPARK_PYTHON=/path/to/venv/bin/python    # a Python that has kafkafmt[spark]
--     spark-sql -d path=/var/lib/kafka/data -d topic=orders -f examples/logs.sql

CREATE TEMPORARY VIEW logs USING kafkafmt OPTIONS (path '${path}', subscribe '${topic}');

SELECT topic, partition, count(*) AS records, min(offset) AS first, max(offset) AS last
FROM logs GROUP BY topic, partition ORDER BY topic, partition;

-- `where` restricts what is read. A WHERE clause of the query does not.
CREATE TEMPORARY VIEW first_ten USING kafkafmt
OPTIONS (path '${path}', where '[["topic", "=", "${topic}"], ["offset", "<", 10]]');

SELECT count(*) AS first_ten FROM first_ten;
