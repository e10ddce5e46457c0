"""Threat scenarios generated from the answers of the model under test (Bench2ADVLM, section 3.3)."""
