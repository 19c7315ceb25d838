"""Values and their rules, without I/O: nodes, strength, judgements, decisions, and the JSON lines that store them."""
