"""Implementations of Fuser: interview -> ThreatSpec, by a language model or by rules."""
