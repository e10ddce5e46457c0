"""Scenic turned from push to pull: compile a program, sample a scene, step it from outside."""
