"""Schedules: when something is to run (rules), when not (calendars and windows), and what becomes of each time."""
