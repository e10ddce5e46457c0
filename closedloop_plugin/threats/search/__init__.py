"""Looking for the parameters of a scenario under which a driver fails."""
