"""Any other store, with each call of it written down: for measuring what workers ask of a store."""
