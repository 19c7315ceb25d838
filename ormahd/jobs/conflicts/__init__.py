"""The job that finds memories that contradict or replace each other."""
