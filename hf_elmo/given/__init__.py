"""What users and strangers give, within bounds: flags, files and JSON."""
