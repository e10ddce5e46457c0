"""Planning of the expert: forecasts of other actors, lateral manoeuvres."""
