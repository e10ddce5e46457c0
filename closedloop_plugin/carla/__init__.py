"""Parts that need a CARLA client or server: world, maps, servers, Leaderboard agent."""
