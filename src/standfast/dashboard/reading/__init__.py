"""What there is to see: an operation for each look, free of HTML."""
