"""Write partitions as a broker does: segments, indexes, recovery and retention."""
