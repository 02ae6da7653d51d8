"""Incidents: written by supervisors, kept in the store and as folders on disk, read by people."""
