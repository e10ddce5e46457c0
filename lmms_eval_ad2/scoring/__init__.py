"""From a model's text to a table: one row a sample (sample), judge replies filled in (judged), columns a task (table), files (store)."""
