"""How handlers run: coroutines on the event loop, plain functions in threads."""
