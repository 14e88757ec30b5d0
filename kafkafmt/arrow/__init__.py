"""Convert columns of records to Arrow."""
