"""Find, plan and read partitions, including damaged ones."""
