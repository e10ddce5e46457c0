"""CARLA servers: start, supervise and probe them."""
