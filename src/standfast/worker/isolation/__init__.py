"""Handlers in processes of their own: a pool of warm processes, what is said to them, and how they are ended."""
