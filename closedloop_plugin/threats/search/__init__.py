"""Search for scenario parameters under which a driver fails."""
