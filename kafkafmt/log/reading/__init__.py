"""Find, plan and read partitions, also damaged ones."""
