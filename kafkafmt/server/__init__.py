"""Serve log directories to Kafka clients, without a broker and without writing anything."""
