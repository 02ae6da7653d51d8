"""Events told as lines on the console, as JSON, and as logging records."""
