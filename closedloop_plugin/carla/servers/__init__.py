"""CARLA servers: started, watched, asked."""
