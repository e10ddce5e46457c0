"""A software camera: numpy and OpenCV, no GPU, the same frame bit for bit."""
