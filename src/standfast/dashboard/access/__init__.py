"""Authentication and authorization: who sends a request, and whether it is let in."""
