"""Verify, dump and salvage log directories."""
