"""Two-phase maintenance: an agent gets the questions of the jobs, and sends its verdicts back."""
