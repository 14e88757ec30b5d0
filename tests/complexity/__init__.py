"""Work grows linearly with the input: bytes, calls and lines are counted, never seconds."""
