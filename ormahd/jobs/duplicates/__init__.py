"""Merges memories that say the same."""
