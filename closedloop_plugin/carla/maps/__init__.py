"""The road network of a town: from a CARLA server's OpenDRIVE, or from `carla.Map` without a server."""
