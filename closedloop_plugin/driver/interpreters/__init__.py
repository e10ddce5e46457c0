"""Interpreters (the slow system): from a decision in words to a Control."""
