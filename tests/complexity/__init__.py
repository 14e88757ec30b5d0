"""Check that the work grows linearly with the input.

Bytes, calls and lines are counted, but no time is measured.
"""
