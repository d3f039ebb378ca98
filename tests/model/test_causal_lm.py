"""Each direction of the biLM as a causal language model of words, by itself and in transformers' generation."""

import json

import pytest
import torch
from class_cases import WORDS
from model_cases import LAYERS, H, P, assert_close, make_model
from refusals import assert_refused
from tolerances import LOSS_FLOAT32
from torch.nn import functional as F
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, Trainer, TrainingArguments, pipeline

from hf_elmo import ElmoCharTokenizer, ElmoForCausalLM, ElmoForPreTraining, ElmoWordTokenizer

UNKNOWN = "zebra"
WORD_IDS = {word: index for index, word in enumerate(WORDS)}
SOFTMAXES = {
    "shared": {},
    "two": {"share_word_softmax": False},
    "adaptive": {"softmax_type": "adaptive", "adaptive_softmax_cutoffs": [4]},
}
each_direction = pytest.mark.parametrize("direction", ["forward", "backward"])
each_softmax = pytest.mark.parametrize("fields", SOFTMAXES.values(), ids=SOFTMAXES)


def make_causal(direction="forward", **fields) -> ElmoForCausalLM:
    model = make_model(ElmoForCausalLM, torch.float64, word_vocab_size=len(WORDS), direction=direction, **fields)
    model.words = WORDS
    return model


@pytest.fixture(scope="module")
def words_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("words") / "word_vocabulary.txt"
    path.write_text("".join(f"{word}\n" for word in WORDS))
    return path


@pytest.fixture
def make_tokenizer(words_file):
    return lambda direction="forward", **settings: ElmoWordTokenizer(words_file, direction, **settings)


def ids_of(*words: str) -> torch.Tensor:
    return torch.tensor([[WORD_IDS.get(word, 2) for word in words]])


@each_direction
@each_softmax
def test_its_scores_are_those_of_the_bilm(direction, fields):
    model = make_causal(direction, **fields)
    bilm = make_model(ElmoForPreTraining, torch.float64, word_vocab_size=len(WORDS), **fields)
    words = ["<S>", "a", "bb", "c", "</S>"]
    batch = ElmoCharTokenizer()(words[1:-1], is_split_into_words=True, return_tensors="pt")
    expected = bilm(**batch)
    if direction == "forward":
        assert_close(model(ids_of(*words)).logits, expected.forward_logits, torch.float64)
    else:
        assert_close(model(ids_of(*words[::-1])).logits, expected.backward_logits.flip(1), torch.float64)


@each_direction
def test_a_word_without_an_id_is_read_by_its_characters(direction, make_tokenizer):
    tokenizer, model = make_tokenizer(direction), make_causal(direction)
    sentences = [["a", "okapi", "bb"], ["a", UNKNOWN, "bb"]]
    alike, told_apart = (
        [model(**tokenizer(each, is_split_into_words=True, return_tensors="pt")).logits for each in sentences]
        for tokenizer.return_character_ids in (False, True)
    )
    assert torch.equal(*alike) and not torch.equal(*told_apart)
    bilm = make_model(ElmoForPreTraining, torch.float64, word_vocab_size=len(WORDS))
    expected = bilm(**ElmoCharTokenizer()(sentences[1], is_split_into_words=True, return_tensors="pt"))
    if direction == "forward":
        assert_close(told_apart[1], expected.forward_logits[:, :-1], torch.float64)
    else:
        assert_close(told_apart[1], expected.backward_logits[:, 1:].flip(1), torch.float64)


@each_direction
def test_a_state_goes_on_with_a_text(direction):
    model, ids = make_causal(direction), ids_of("<S>", "a", "bb", "c", "d", "e")
    whole, first = model(ids), model(ids[:, :2])
    assert first.cache.hidden.shape == (1, LAYERS, P) and first.cache.cell.shape == (1, LAYERS, H)
    rest = model(ids[:, 2:], cache=first.cache)
    assert_close(torch.cat([first.logits, rest.logits], dim=1), whole.logits, torch.float64)
    assert_close(rest.cache.cell, whole.cache.cell, torch.float64)
    assert model(ids, use_cache=False).cache is None
    assert_close(model(ids, logits_to_keep=2).logits, whole.logits[:, -2:], torch.float64)


@each_direction
@each_softmax
def test_its_loss_is_that_of_the_words_behind(direction, fields):
    model, ids = make_causal(direction, **fields), ids_of("<S>", "a", "bb", "c", "d")
    labels = ids.masked_fill(ids == WORD_IDS["bb"], -100)
    output = model(ids, labels=labels)
    expected = F.cross_entropy(output.logits[0, [0, 2, 3]], ids[0, [1, 3, 4]])
    assert output.loss.item() == pytest.approx(expected.item(), rel=LOSS_FLOAT32)
    # Trainer divides by the words of all batches of a step.
    summed = model(ids, labels=labels, num_items_in_batch=6).loss
    assert summed.item() == pytest.approx(expected.item() / 2, rel=LOSS_FLOAT32)


def test_one_direction_learns_and_the_other_rests(tmp_path):
    model = make_causal("backward", share_word_softmax=False).float()
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    rows = [{"input_ids": ids_of("</S>", "a", "bb")[0], "labels": ids_of("</S>", "a", "bb")[0]}] * 4
    arguments = TrainingArguments(tmp_path, max_steps=2, report_to=[], use_cpu=True, disable_tqdm=True)
    Trainer(model, arguments, train_dataset=rows).train()
    changed = {name for name, parameter in model.named_parameters() if not torch.equal(parameter, before[name])}
    assert {name for name in changed if "lstm" in name} == {name for name in before if "backward_lstm" in name}
    assert "word_softmax_backward.weight" in changed and "word_softmax.weight" not in changed
    assert any("token_encoder" in name for name in changed)


# Generation


def greedy(model, ids: torch.Tensor, count: int) -> torch.Tensor:
    """Each word the most probable one behind all before it but `<UNK>`, all of them read anew each time."""
    for _ in range(count):
        scores = model(ids).logits[:, -1]
        scores[:, 2] = -torch.inf
        ids = torch.cat([ids, scores.argmax(dim=-1, keepdim=True)], dim=1)
    return ids


@each_direction
@each_softmax
def test_generation_reads_each_word_once(direction, fields, monkeypatch):
    model, prompt = make_causal(direction, **fields), ids_of("<S>", "a", "bb")
    expected = greedy(model, prompt, 6)
    lengths = []
    run = model.elmo.bilm.run_direction
    monkeypatch.setattr(model.elmo.bilm, "run_direction", lambda *args: lengths.append(args[1].shape[1]) or run(*args))
    assert torch.equal(model.generate(prompt, max_new_tokens=6, eos_token_id=-1, do_sample=False), expected)
    assert lengths == [3, 1, 1, 1, 1, 1]
    assert model.config.vocab_size == 262  # of characters, whatever generation was told


@each_softmax
@pytest.mark.parametrize("how", [{"num_beams": 3}, {"do_sample": True}, {"do_sample": True, "num_beams": 2}], ids=str)
def test_beams_and_samples_are_the_same_without_a_state(fields, how):
    model, prompt, generated = make_causal(**fields), ids_of("<S>", "a").repeat(2, 1), []
    for use_cache in (True, False):
        torch.manual_seed(0)
        generated.append(
            model.generate(
                prompt,
                **how,
                max_new_tokens=5,
                num_return_sequences=2,
                use_cache=use_cache,
                return_dict_in_generate=True,
                output_scores=True,
            )
        )
    first, second = generated
    assert torch.equal(first.sequences, second.sequences)
    scores = [
        model.compute_transition_scores(each.sequences, each.scores, each.get("beam_indices")) for each in generated
    ]
    assert_close(*scores, torch.float64)


def test_left_padding_generates_what_each_row_alone_does(make_tokenizer):
    tokenizer, model = make_tokenizer(padding_side="left"), make_causal()
    batch = ["a bb c", "d"]
    together = model.generate(**tokenizer(batch, padding=True, return_tensors="pt"), max_new_tokens=4, eos_token_id=-1)
    alone = [
        model.generate(**tokenizer(each, return_tensors="pt"), max_new_tokens=4, eos_token_id=-1)[0, -4:]
        for each in batch
    ]
    assert torch.equal(together[:, -4:], torch.stack(alone))


def test_generation_reads_unknown_words_of_a_prompt_by_their_characters(make_tokenizer):
    tokenizer, model = make_tokenizer(return_character_ids=True), make_causal()
    prompt = tokenizer(f"a {UNKNOWN}", return_tensors="pt")
    output, scores = model(**prompt), []
    for use_cache in (True, False):
        found = model.generate(
            **prompt, max_new_tokens=3, use_cache=use_cache, return_dict_in_generate=True, output_logits=True
        )
        assert_close(found.logits[0][0], output.logits[0, -1].float(), torch.float32)
        scores.append(torch.stack(found.logits))
    assert_close(*scores, torch.float32)


def test_generation_goes_on_with_a_state():
    model, ids = make_causal(), ids_of("<S>", "a", "bb", "c")
    state = model(ids[:, :3]).cache
    expected = model.generate(ids, max_new_tokens=4)[:, 4:]
    assert torch.equal(model.generate(ids[:, 3:], cache=state, max_new_tokens=4)[:, 1:], expected)


@each_direction
def test_a_saved_directory_is_a_language_model_for_every_tool(direction, make_tokenizer, tmp_path):
    make_tokenizer(direction).save_pretrained(tmp_path)
    make_causal(direction).float().save_pretrained(tmp_path)
    model, tokenizer = AutoModelForCausalLM.from_pretrained(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    assert model.config.direction == tokenizer.direction == direction
    begin, end = (0, 1) if direction == "forward" else (1, 0)
    ids = GenerationConfig.from_pretrained(tmp_path)
    assert (ids.bos_token_id, ids.eos_token_id, ids.pad_token_id, ids.suppress_tokens) == (begin, end, 1, [2])
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (begin, end, 1)
    if direction == "forward":
        generate = pipeline("text-generation", model=str(tmp_path), device="cpu")
        (found,) = generate("a bb", max_new_tokens=3, do_sample=False)
        expected = tokenizer.decode(greedy(model, ids_of("<S>", "a", "bb"), 3)[0], skip_special_tokens=True)
        assert found["generated_text"] == expected


@each_direction
def test_a_pretrained_checkpoint_holds_both_directions(direction, words_file, tmp_path):
    bilm = make_model(ElmoForPreTraining, word_vocab_size=len(WORDS))
    bilm.words = WORDS
    bilm.save_pretrained(tmp_path)
    ElmoCharTokenizer(do_lower_case=True, pre_tokenizer="penn").save_pretrained(tmp_path)
    model, report = ElmoForCausalLM.from_pretrained(tmp_path, direction=direction, output_loading_info=True)
    assert not any(report.values()) and model.generation_config.eos_token_id == (1 if direction == "forward" else 0)
    tokenizer = ElmoWordTokenizer.from_pretrained(tmp_path, direction=direction)
    assert tokenizer.tokenize("A BB's")[:: 1 if direction == "forward" else -1] == ["a", "bb", "'s"]
    # The words are read anew when they are others.
    logits = model(ids_of("a", "bb")).logits
    model.words = [*WORDS[:3], "x", *WORDS[4:]]
    assert not torch.equal(model(ids_of("a", "bb")).logits, logits)


def test_what_cannot_be_read_is_named(tmp_path):
    model = make_causal()
    assert_refused(ValueError, ("input_ids", "(1, 2, 3)", "ElmoWordTokenizer"), model, torch.zeros(1, 2, 3).long())
    model.words = None
    assert_refused(ValueError, ("word_vocabulary.txt", "character_ids"), model, ids_of("a"))
    dictionary = {"padding_character_id": 5, "bos_token_id": 3, "eos_token_id": 4}
    model = make_causal(character_scheme="dictionary", vocab_size=9, **dictionary)
    assert_refused(ValueError, ("dictionary", "character_ids"), model, ids_of("a"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "ElmoCharTokenizer"}))
    assert_refused(ValueError, ("words_file", "word_vocabulary.txt"), ElmoWordTokenizer.from_pretrained, tmp_path)


@each_direction
@pytest.mark.parametrize("share", [True, False])
def test_the_output_embeddings_are_those_of_its_direction_and_can_be_replaced(direction, share):
    model = make_causal(direction, share_word_softmax=share)
    assert model.get_output_embeddings() is model.word_softmaxes[model.direction]
    other, new = model.word_softmaxes[1 - model.direction], torch.nn.Linear(P, len(WORDS)).double()
    model.set_output_embeddings(new)
    assert model.get_output_embeddings() is new
    assert (model.word_softmaxes[1 - model.direction] is other) is not share
