"""What the expert plans with: forecasts of other road users, manoeuvres."""
