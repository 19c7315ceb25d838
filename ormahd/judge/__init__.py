"""Judges: whoever answers what arithmetic cannot (are these two the same? do they contradict?). One port, several guests."""
