"""Stand-alone files for Bench2Drive's leaderboard and for published driving models, run by their own interpreters."""
