"""Rules of RulesFuser: keywords, scored candidates, numbers."""
