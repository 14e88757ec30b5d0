"""Check that work grows linearly with the input. Bytes, calls and lines are counted; time is not measured."""
