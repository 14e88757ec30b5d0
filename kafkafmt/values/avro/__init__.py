"""Read Avro: its schemas, the programs that decode its values, and its values as objects for JSON."""
