"""Talking to language models over HTTP: client, replies on disk, and a real local endpoint for tests."""
