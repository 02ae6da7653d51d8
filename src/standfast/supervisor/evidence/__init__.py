"""What can be found out about a process that died, hangs, or is asked about. Nothing here may fail aloud."""
