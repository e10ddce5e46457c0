"""Everything that needs a CARLA client or server: the world, its maps, the servers, the Leaderboard agent."""
