"""How a record is asked: `text` (words), `visual` (pictures), `marks` and `views` (what both must agree on)."""
