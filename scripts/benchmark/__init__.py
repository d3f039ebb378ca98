"""What the package costs and what it is worth: correctness first, then timings beside other implementations."""
