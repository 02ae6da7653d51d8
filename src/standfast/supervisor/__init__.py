"""The parent process: it starts workers, beats for them, and knows what to do when one dies.

It imports no task code, so no handler can harm it.
"""
