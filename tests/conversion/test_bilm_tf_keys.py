"""The table of bilm-tf's keys names all there is to convert."""

from conftest import make_tiny_config

from hf_elmo import ElmoConfig, ElmoModel
from hf_elmo.conversion.bilm_tf_keys import expand_weight_rules


def test_the_key_table_names_every_parameter_once():
    config = make_tiny_config()
    named = [name for rule in expand_weight_rules(config, stacked=True) for name in rule.parameters]
    wanted = [name for name in ElmoModel(config).state_dict() if not name.startswith("mixes.")]
    assert sorted(named) == sorted(wanted)


def test_the_released_sizes_have_the_keys_of_the_released_files():
    rules = expand_weight_rules(ElmoConfig.original(), stacked=True)
    assert len(rules) == 1 + 2 * 7 + 4 * 2 + 2 + 3 * 2 * 2
    assert "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell/W_P_0" in {rule.key for rule in rules}
