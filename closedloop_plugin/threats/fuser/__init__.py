"""Turns an interview into a threat specification: by a language model, or by rules."""
