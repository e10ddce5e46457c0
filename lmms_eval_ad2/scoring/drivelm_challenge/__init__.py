"""The score of the DriveLM challenge."""
