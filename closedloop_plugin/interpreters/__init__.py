"""The slow system: from words to Control."""
