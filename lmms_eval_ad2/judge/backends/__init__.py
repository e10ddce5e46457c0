"""The judges: a language model, sentence embeddings, a metric script of `evaluate`, lexical overlap."""
