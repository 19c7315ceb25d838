"""Judges: answer questions that arithmetic cannot decide (are two memories duplicates? do they contradict?)."""
