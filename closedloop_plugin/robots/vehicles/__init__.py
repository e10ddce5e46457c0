"""The supported vehicles: limits, topics, and the conversion from a Control to an actuation."""
