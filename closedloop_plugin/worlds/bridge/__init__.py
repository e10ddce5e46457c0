"""Scenic programs under external control: compile a program, sample a scene, step the simulation."""
