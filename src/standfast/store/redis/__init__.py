"""Jobs in Redis or Valkey, for fleets that want speed above all."""
