"""The model of a toy task: the first of the two files that a new task consists of."""

from hf_elmo import ElmoForTokenClassification


class ElmoForCapitals(ElmoForTokenClassification):
    """Says of each word whether it begins with a capital letter."""
