"""Ranking: which memories answer a question, best first, and why. Shared by recall and whisper.

The pipeline reads: hear → gather → fuse → shape → activate → renew → cut (`search.py`). Everything but `gather` and the
edges that `activate` asks for is pure; clock, strength and models are arguments.
"""
