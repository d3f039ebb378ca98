"""Dropouts act where they are set and in training alone, and no checkpoint knows of them."""

import pytest
import torch
from conftest import make_tiny_config
from run_cases import TINY, make_arguments, write_lines

from hf_elmo import ElmoConfig, ElmoForPreTraining
from hf_elmo.pretraining.dropouts import set_dropouts
from hf_elmo.pretraining.recipes import OptimizationArguments
from hf_elmo.pretraining.run import run_pretraining


def make_bilm(**dropouts):
    torch.manual_seed(0)
    model = ElmoForPreTraining(make_tiny_config(word_vocab_size=5, dropout=0.0, num_hidden_layers=3))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-1, 1)
    set_dropouts(model, OptimizationArguments(**dropouts).with_recipe())
    return model.elmo.bilm.train()


def run(bilm, num_words=4):
    vectors = torch.ones(2, num_words, bilm.layers[0].forward_lstm.weight_ih.shape[1])
    torch.manual_seed(1)
    return bilm(vectors, vectors)[0]


@pytest.mark.parametrize(
    ("name", "first_changed"), [("input_dropout", 0), ("layer_dropout", 1), ("recurrent_dropout", 0)]
)
def test_layers_change_from_where_the_dropout_is(name, first_changed):
    plain, dropped = run(make_bilm()), run(make_bilm(**{name: 0.5}))
    for layer, (expected, found) in enumerate(zip(plain, dropped, strict=True)):
        assert all(torch.equal(*pair) for pair in zip(expected, found, strict=True)) == (layer < first_changed)


def test_dropout_of_the_output_is_that_of_what_the_softmax_reads():
    plain, dropped = run(make_bilm()), run(make_bilm(output_dropout=0.5))
    assert all(torch.equal(first, second) for first, second in zip(plain[1], dropped[1], strict=True))
    for first, second in zip(plain[2], dropped[2], strict=True):
        kept = second != 0
        torch.testing.assert_close(second[kept], 2 * first[kept])
        assert 0 < kept.float().mean() < 1


def test_recurrent_weights_are_dropped_for_the_whole_window_and_not_for_its_first_word():
    bilm = make_bilm(recurrent_dropout=0.5)
    lstm = bilm.layers[0].forward_lstm
    plain, dropped = run(make_bilm())[0][0], run(bilm)[0][0]
    # The first word of a state of zeros knows no recurrent weight.
    assert torch.equal(plain[:, 0], dropped[:, 0]) and not torch.equal(plain[:, 1], dropped[:, 1])
    run(bilm)[0][0].sum().backward()
    rests = (lstm.weight_hh.grad == 0).float().mean()
    assert 0.4 < rests < 0.6 and (lstm.weight_ih.grad == 0).float().mean() < 0.1
    assert all(torch.equal(*pair) for pair in zip(run(bilm.eval())[0], run(make_bilm().eval())[0], strict=True))


def test_a_dropout_of_zero_draws_nothing():
    bilm = make_bilm()
    state = torch.get_rng_state()
    vectors = torch.ones(2, 4, bilm.layers[0].forward_lstm.weight_ih.shape[1])
    bilm(vectors, vectors)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_checkpoint_keeps_the_dropout_of_its_config(tmp_path):
    write_lines(tmp_path)
    changes = {"input_dropout": 0.4, "recurrent_dropout": 0.3, "config_overrides": TINY.replace("0.0", "0.2")}
    results = run_pretraining(make_arguments(tmp_path, **changes), report=lambda line: None)
    assert (results["settings"]["input_dropout"], results["settings"]["recurrent_dropout"]) == (0.4, 0.3)
    assert ElmoConfig.from_pretrained(tmp_path / "out").dropout == 0.2
