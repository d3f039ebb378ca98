"""Each layout of bilm-tf's arrays is used, and undone bit by bit."""

import torch
from conftest import make_tiny_config

from hf_elmo import ElmoModel
from hf_elmo.conversion import bilm_tf_layouts
from hf_elmo.conversion.bilm_tf_keys import WEIGHT_RULES, expand_weight_rules


def test_our_numbers_come_back_from_every_layout():
    assert {rule.layout for rule in WEIGHT_RULES} == set(bilm_tf_layouts._LAYOUTS)
    config = make_tiny_config()
    parameters = ElmoModel(config).state_dict()
    for rule in expand_weight_rules(config, stacked=True):
        back = bilm_tf_layouts.to_ours(rule, bilm_tf_layouts.to_theirs(rule, parameters))
        assert tuple(back) == tuple(rule.parameters)
        for name, tensor in back.items():
            assert torch.equal(tensor, parameters[name]), name
