"""From a model's text to a table: a row a sample (sample), judge replies (judged), columns (table), files (store)."""
