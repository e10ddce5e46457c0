"""Running episodes: the loop, the pool of world processes, the store."""
