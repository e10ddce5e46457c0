"""What stands and moves on a road, as every simulator of ours sees it: bodies, their physics, lights, gaps."""
