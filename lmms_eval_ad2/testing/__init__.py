"""Test doubles for our tests and for users' tests: an OpenAI-compatible endpoint, a judge."""
