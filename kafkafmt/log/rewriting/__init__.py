"""Change logs: drop records, compact and recompress them, and restore them for a broker."""
