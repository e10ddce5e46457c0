"""Annotation by people: pre-annotated texts kept, changed or deleted, every action on disk before the next."""
