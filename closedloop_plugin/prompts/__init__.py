"""The words of the loop's prompts: driving.yaml, and the reader that checks a user's own file against it."""
