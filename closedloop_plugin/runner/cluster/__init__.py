"""World processes and models as actors of a Ray cluster (`--engine ray`)."""
