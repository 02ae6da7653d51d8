"""What was done by whom, and what it was like before and after."""
