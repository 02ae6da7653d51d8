"""One file for each kind of channel, and what all of them say."""
