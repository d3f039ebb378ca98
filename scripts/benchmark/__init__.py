"""Speed of inference and of training: backend against backend, peer against peer, commit against commit."""
