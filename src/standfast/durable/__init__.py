"""Long jobs: how they go on where they were, do nothing twice, and wait without a slot."""
