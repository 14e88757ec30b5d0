"""Export log directories to Parquet as a Spark job."""
