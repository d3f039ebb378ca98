"""The one home of the tests' tolerances (absolute, unless said)."""

# Reference vectors of the original implementation, float32, for the first of the fixture's lists of sentences; on the
# second one the compiled kernels differ by 1.2e-6.
PARITY = 1e-6
# Vectors that other programs computed, float32; sums of many logarithms among them.
FOREIGN_VECTORS = 1e-5
# The same float32 arithmetic in another order: batch mates, padding, chunks.
REORDERED_FLOAT32 = 1e-6
# The same arithmetic in float64.
REORDERED_FLOAT64 = 1e-12
# Vectors of a model in half precision against float32, for values of about 1.
BFLOAT16 = 3e-2
FLOAT16 = 4e-3
# A mean loss in float32 against the same from float64, relative.
LOSS_FLOAT32 = 1e-6
# A mean over random draws against its expectation, in standard errors of that mean.
STANDARD_ERRORS = 5.0
# A fused training pass against float64, relative norms: in float32, and in bf16 with the same factors rounded, of which
# some fall to the other side; gradients of gates, rounded on their way back, are among them.
FUSED_FLOAT32 = 1e-5
FUSED_BFLOAT16 = 2e-2
# Scores of a task's model by onnxruntime: a CRF adds logarithms over all words.
ONNX_SCORES = 1e-5
# Sums of numbers of a model in float64, whose loss is in float32, against those on record; relative where above 1.
GOLDEN = 1e-5
