"""What a text holds, pure: words, statements, secrets, quoting, and which two texts say the same."""
