"""Requests to language models over HTTP: client, connection pool, reply cache, settings."""
