"""Rewrite logs (drop records, compact, recompress), and restore logs into a broker's log directory."""
