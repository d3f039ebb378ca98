"""The forms in which a tokenizer's call takes sentences and pairs."""

import pytest
from refusals import assert_refused

WANTED = [["<S>", "a", "b", "</S>", "<S>", "c", "</S>"], ["<S>", "d", "</S>", "<S>", "e", "f", "</S>"]]


@pytest.mark.parametrize(
    ("arguments", "is_split"),
    [
        ((["a b", "d"], ["c", "e f"]), False),
        (([("a b", "c"), ("d", "e f")],), False),
        (([["a b", "c"], ["d", "e f"]],), False),
        (([["a", "b"], ["d"]], [["c"], ["e", "f"]]), True),
        (([(["a", "b"], ["c"]), (["d"], ["e", "f"])],), True),
    ],
)
def test_a_batch_of_pairs_comes_as_two_lists_or_as_a_list_of_pairs(tokenizer, arguments, is_split):
    encoded = tokenizer(*arguments, is_split_into_words=is_split)
    assert [encoded.tokens(index) for index in range(2)] == WANTED
    assert len(encoded["input_ids"]) == 2


@pytest.mark.parametrize(
    ("arguments", "is_split"), [(("a b", "c"), False), ((["a", "b"], ["c"]), True), ((("a", "b"), ("c",)), True)]
)
def test_a_single_pair_stays_single(tokenizer, arguments, is_split):
    encoded = tokenizer(*arguments, is_split_into_words=is_split)
    assert encoded.tokens() == WANTED[0]
    assert len(encoded["input_ids"]) == len(encoded["token_type_ids"]) == 7


def test_lists_of_words_are_no_pairs(tokenizer):
    encoded = tokenizer([["a", "b"], ["c", "d"]], is_split_into_words=True)
    assert encoded.tokens(0) == ["<S>", "a", "b", "</S>"] and encoded.n_sequences == 1


@pytest.mark.parametrize(
    ("arguments", "is_split", "error", "named"),
    [
        ((["a", "b"], ["c"]), False, ValueError, ("text_pair", "1", "2")),
        (("a", ["c"]), False, TypeError, "text_pair"),
        ((["a"], "c"), False, TypeError, "text_pair"),
        (("a", 5), False, TypeError, "text_pair"),
        ((["a"], [None]), False, TypeError, "text_pair[0]"),
        ((["a"], "b"), True, TypeError, "text_pair"),
        (([("a", "b"), "c"],), False, TypeError, "text[1]"),
        (([("a", "b"), ("c", "d", "e")],), False, TypeError, "text[1]"),
        (([("a", "b")], ["c"]), False, TypeError, "text[0]"),
        (([["a"]], [["b", 5]]), True, TypeError, "text_pair[0][1]"),
    ],
)
def test_what_is_no_pair_is_refused_by_name(tokenizer, arguments, is_split, error, named):
    assert_refused(error, named, tokenizer, *arguments, is_split_into_words=is_split)
