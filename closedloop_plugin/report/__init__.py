"""Pictures of episodes: film strip, top view, video."""
