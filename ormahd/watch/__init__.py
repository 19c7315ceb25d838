"""Detect changes that are made to the vault outside of Ormah, and bring them in."""
