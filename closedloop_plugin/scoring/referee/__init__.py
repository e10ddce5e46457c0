"""Watches an episode and records infractions, as the Leaderboard's criteria do."""
