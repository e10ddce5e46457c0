"""Threat scenarios: the model under test tells where it will fail (Bench2ADVLM, section 3.3)."""
