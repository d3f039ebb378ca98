"""The steps of a projected LSTM in C++."""


def is_ready():
    return False


def why_not():
    return "not written yet"


def build():
    pass
