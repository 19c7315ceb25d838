"""Two-phase maintenance: an agent judges what the jobs found."""
