"""What workers know of their apps, published in the store: so that whoever has the store alone can show it."""
