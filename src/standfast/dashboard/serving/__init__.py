"""Serve the dashboard: on a port of its own, or mounted in your app."""
