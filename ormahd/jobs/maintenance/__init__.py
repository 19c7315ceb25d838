"""Two-phase maintenance: an agent gets the jobs' questions, and sends its verdicts back."""
