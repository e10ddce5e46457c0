"""Software camera with numpy and OpenCV: needs no GPU, frames are reproducible bit for bit."""
