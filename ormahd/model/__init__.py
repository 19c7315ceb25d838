"""Values and their rules, pure: nodes, strength, judgements, decisions, and the lines in which the vault keeps them."""
