"""What the shell commands do, one file per command."""
