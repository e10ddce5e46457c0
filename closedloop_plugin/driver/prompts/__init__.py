"""Prompt texts of the closed loop (driving.yaml, threats.yaml) and their reader."""
