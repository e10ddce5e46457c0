"""Road network of a CARLA town, from a server's OpenDRIVE or from a `carla.Map`."""
