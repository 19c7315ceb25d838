"""Pure functions on texts: words, facts, statements, secrets, quoting, and whether two texts say the same."""
