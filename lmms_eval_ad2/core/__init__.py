"""Records, errors, options, coordinates: what every other package uses."""
