"""Drivers: agents that speak (fast system), interpreters that turn words into control (slow system), prompts."""
