"""Where the car drives. base.py is what the runner sees."""
