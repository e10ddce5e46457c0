"""The words of the loop's prompts: driving.yaml, threats.yaml, and the reader that checks a user's own file."""
