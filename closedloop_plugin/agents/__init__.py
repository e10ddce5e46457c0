"""The fast system: who looks at the road and says what to do."""
