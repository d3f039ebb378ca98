"""The plain trainer has our loss and our gradients where nothing is clipped."""

import pytest
import torch
from benchmark.plain_trainer import PlainTrainer
from conftest import make_tiny_config
from tolerances import REORDERED_FLOAT64

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining
from hf_elmo.pretraining.lanes import fill_lanes
from hf_elmo.pretraining.objectives import SampledSoftmaxObjective
from hf_elmo.text.vocabulary import WordVocabulary

WORDS = [f"w{number}" for number in range(20)]
VOCABULARY = WordVocabulary(["<S>", "</S>", "<UNK>", *WORDS])


@pytest.mark.parametrize("encodes_distinct", [True, False])
def test_losses_states_and_gradients_are_ours(encodes_distinct):
    config = make_tiny_config(word_vocab_size=len(VOCABULARY), dropout=0.0, cell_clip=None, projection_clip=None)
    model = ElmoForPreTraining(config).double()
    ours = SampledSoftmaxObjective(model, num_negative_samples=7, seed=3).train()
    plain = PlainTrainer(model, 7, seed=3, encodes_distinct=encodes_distinct).double().train()
    lines = [WORDS[start:] + WORDS[:start] for start in (0, 3, 5)]
    our_state = plain_state = None
    # The second window starts from the first one's states.
    for window in list(fill_lanes(lines, ElmoCharTokenizer(), VOCABULARY, 2, 8))[:2]:
        our_loss, (plain_loss, plain_state) = ours(window, our_state), plain(window, plain_state)
        our_state = our_loss.state.detach()
        torch.testing.assert_close(our_loss.mean, plain_loss, rtol=0, atol=REORDERED_FLOAT64)
    our_loss.mean.backward()
    plain_loss.backward()
    encoder, layer = model.elmo.token_encoder, model.elmo.bilm.layers[1]
    for mine, theirs in (
        (model.word_softmax.weight, plain.softmax.weight),
        (encoder.projection.weight, plain.encoder.projection.weight),
        (encoder.convolutions[0].weight, plain.encoder.convolutions[0].weight),
        (layer.backward_lstm.weight_hh, plain.lstms.backward_lstms[1].weight_hh_l0),
    ):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=0, atol=REORDERED_FLOAT64)
