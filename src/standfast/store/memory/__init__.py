"""The reference model: a store over plain dicts, and the shortest answer to what a verb means."""
