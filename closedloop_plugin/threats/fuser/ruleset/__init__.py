"""The rules of the rule-based fuser: keywords, candidate places, numbers."""
