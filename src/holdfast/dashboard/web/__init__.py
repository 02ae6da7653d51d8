"""Pages for people: what operations answer, as HTML that stays up to date by itself."""
