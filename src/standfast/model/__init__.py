"""What a job is: its states, outcomes, records, arguments and ids. Pure; it knows no store."""
