"""Work inside a web process."""
