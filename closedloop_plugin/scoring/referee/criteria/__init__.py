"""Infraction criteria, one per module."""
