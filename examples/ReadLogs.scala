// Read Kafka's log directories from Scala. Java programs call the same methods.
//
//     export PYSPARK_PYTHON=/path/to/venv/bin/python    # a Python that has kafkafmt[spark]
//     spark-shell --conf spark.example.path=/var/lib/kafka/data -i examples/ReadLogs.scala

val path = spark.conf.get("spark.example.path")

val logs = spark.read.format("kafkafmt").option("includeHeaders", "true").load(path)
logs.groupBy("topic", "partition").count().orderBy("topic", "partition").show(false)

// A schema selects columns. The others are not decoded.
val offsets = spark.read.format("kafkafmt").schema("topic string, offset bigint").load(path)
println("last offset: " + offsets.selectExpr("max(offset)").first().getLong(0))

System.exit(0)
