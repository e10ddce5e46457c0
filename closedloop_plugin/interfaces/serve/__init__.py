"""A model, or a whole driver, behind an OpenAI-compatible endpoint."""
