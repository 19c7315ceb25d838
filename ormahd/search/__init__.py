"""Ranking: find the memories that answer a query, best first, and record why. Used by recall and whisper.

The stages are parse → gather → fuse → shape → activate → renew → cut (see `search.py`). Only `gather`, `activate` and
`renew` read the index. Clock, strength and models are passed as arguments.
"""
