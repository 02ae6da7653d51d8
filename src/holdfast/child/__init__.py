"""The entry of a child process, where the user's app is imported and handed to a worker."""
