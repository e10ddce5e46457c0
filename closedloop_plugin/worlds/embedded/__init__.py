"""The embedded world: Scenic with vehicle physics, contacts, signals, weather, traffic and cameras of our own."""
