"""What can be done: an operation for each deed, free of HTML."""
