"""The infraction criteria, one module each."""
