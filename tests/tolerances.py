"""The one home of the tests' tolerances (absolute, unless said)."""

# Reference vectors of the original implementation, float32.
PARITY = 1e-6
# The same float32 arithmetic in another order: batch mates, padding, chunks.
REORDERED_FLOAT32 = 1e-6
# The same arithmetic in float64.
REORDERED_FLOAT64 = 1e-12
# Vectors of a model in half precision against float32, for values of about 1.
BFLOAT16 = 3e-2
FLOAT16 = 4e-3
