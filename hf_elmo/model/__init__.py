"""All that travels with a checkpoint: configuration, characters, tokenizer, recurrence, layers and models, flat."""
