"""Test doubles for our and users' tests: an OpenAI-compatible endpoint and a judge."""
