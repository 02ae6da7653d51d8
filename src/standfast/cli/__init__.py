"""The command line: one file per command. Nothing here decides; it asks the store and shows."""
