"""Find and read partitions, including damaged ones."""
