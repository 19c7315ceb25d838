"""Finds memories that do not agree."""
