"""Jobs in PostgreSQL, for fleets and for those whose data lives there."""
