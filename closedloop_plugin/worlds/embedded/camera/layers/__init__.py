"""What the camera draws, one module per layer."""
