"""The embedded store: one SQLite file for jobs, a small one beside it for beats, and a folder for the bell."""
