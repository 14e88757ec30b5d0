"""Write partitions as a broker writes them: segments, indexes, recovery, retention."""
