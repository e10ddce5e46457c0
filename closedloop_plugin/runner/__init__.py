"""Episodes: the loop, the pool of worlds, the store."""
