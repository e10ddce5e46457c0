"""What the CARLA world is made of; worlds/carla.py is its door."""
