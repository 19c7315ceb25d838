"""Requests that a caller can make of Ormah, one per module. An action reads, decides, and changes the vault in one
transaction."""
