"""Named sets of routes, and folders of Scenic programs."""
