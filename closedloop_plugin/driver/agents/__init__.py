"""Agents (the fast system): from an Observation to a Decision."""
