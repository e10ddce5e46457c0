"""One function a behaviour: what stands in its program below the ego's line."""
