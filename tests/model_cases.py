"""Models with weights large enough for any mistake to show, and batches of made-up words."""

import functools
import math

import pytest
import torch
from conftest import make_tiny_config
from hypothesis import strategies as st
from tolerances import REORDERED_FLOAT32, REORDERED_FLOAT64

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining, ElmoModel

P, H, LAYERS = 6, 10, 2  # as in make_tiny_config
TOLERANCES = {torch.float32: REORDERED_FLOAT32, torch.float64: REORDERED_FLOAT64}
both_dtypes = pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
sentence_lists = st.lists(st.lists(st.text("abcé", max_size=5), min_size=1, max_size=6), min_size=1, max_size=4)


def make_model(cls=ElmoModel, dtype=torch.float32, **fields):
    """A model in evaluation mode whose weights are large enough for the clips, and for any mistake, to show."""
    model = cls(make_tiny_config(cell_clip=1.0, projection_clip=0.9, **fields))
    torch.manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "mixes" not in name:
                parameter.uniform_(-0.7, 0.7)
    return model.to(dtype).eval()


# For the many examples of a property, none of which changes the model.
shared_model = functools.cache(make_model)


def save_in_half_precision(folder) -> str:
    """Write a pre-training checkpoint of fp16 with its tokenizer, and return its name."""
    ElmoForPreTraining(make_tiny_config(word_vocab_size=9)).half().save_pretrained(folder)
    ElmoCharTokenizer(do_lower_case=True).save_pretrained(folder)
    return str(folder)


def encode(sentences, **arguments):
    return ElmoCharTokenizer()(
        sentences, is_split_into_words=True, padding=True, return_tensors="pt", add_special_tokens=False, **arguments
    )


def random_rows(*shape) -> torch.Tensor:
    """Rows of random words, without padding."""
    words = [chr(97 + number % 26) * (number % 7) for number in torch.randint(0, 1000, (math.prod(shape),)).tolist()]
    return encode([words])["input_ids"].view(*shape, 50)


def assert_close(found, wanted, dtype):
    torch.testing.assert_close(found, wanted, rtol=0, atol=TOLERANCES[dtype])


def everything(output) -> torch.Tensor:
    """All layers and all mixes side by side, (B, T, everything)."""
    return torch.cat([*output.hidden_states, *output.elmo_representations], dim=-1)


def is_frozen(model) -> bool:
    """Whether none of the token encoder's and the biLM's parameters want gradients, or all; a mixture is a mistake."""
    modules = (model.base_model.token_encoder, model.base_model.bilm)
    wishes = {parameter.requires_grad for module in modules for parameter in module.parameters()}
    assert len(wishes) == 1
    return not wishes.pop()
