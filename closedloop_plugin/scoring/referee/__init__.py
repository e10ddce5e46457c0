"""Online referee: records infractions during an episode, as the criteria of the CARLA Leaderboard do."""
