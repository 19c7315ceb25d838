"""Lets unused memories fade, and folds uses into the vault."""
