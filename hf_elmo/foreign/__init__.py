"""Files of strangers, read within bounds: how much, how deep, and which names."""
