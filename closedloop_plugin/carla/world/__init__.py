"""The CARLA world and its parts. Public class: world.CarlaWorld."""
