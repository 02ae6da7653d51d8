"""What a store knows of one thing, put together for those who show it: the command line and the dashboard."""
