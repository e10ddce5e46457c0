"""Who answers an interview: a model, or an observed driver."""
