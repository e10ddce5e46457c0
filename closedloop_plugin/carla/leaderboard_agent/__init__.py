"""Bench2ADVLM beside Bench2Drive's own leaderboard: files that run under its interpreters, each standing alone."""
