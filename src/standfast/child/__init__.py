"""The entry of a child process, where the user's app is imported, entered and handed to a worker."""
