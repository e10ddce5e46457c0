"""World processes and models as actors of a Ray cluster (`--config engine=ray`)."""
