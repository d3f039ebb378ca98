"""What is computed from sizes is what models, optimizers, gradients, graphs and streams of these sizes have."""

import itertools
import random
from collections import Counter
from dataclasses import replace

import pytest
import torch
from conftest import make_tiny_config

from hf_elmo import ElmoCharTokenizer, ElmoConfig, ElmoForPreTraining, kernels
from hf_elmo.pretraining import fused_losses
from hf_elmo.pretraining import plan as plan_module
from hf_elmo.pretraining.lanes import fill_lanes
from hf_elmo.pretraining.objectives import build_objective
from hf_elmo.pretraining.optimizers import build_optimizer
from hf_elmo.pretraining.parameter_kinds import split_groups
from hf_elmo.pretraining.plan import TrainingPlan, counting_disk_bytes, share_read
from hf_elmo.pretraining.recipes import OptimizationArguments
from hf_elmo.pretraining.sampling import LogUniformSampler
from hf_elmo.pretraining.starting_model import with_softmax
from hf_elmo.text.corpora import corpus_from_files
from hf_elmo.text.vocabulary import SPECIAL_WORDS, WordVocabulary
from hf_elmo.text.word_counts import WordCounter

WORDS = [first + second for first in "abcdefgh" for second in "xyz"]
VOCABULARY = WordVocabulary([*SPECIAL_WORDS, *WORDS])
LANES, STEPS, NEGATIVES = 4, 5, 9
ADAPTIVE = {
    "softmax_type": "adaptive",
    "adaptive_softmax_cutoffs": [8, 16],
    "adaptive_softmax_div_value": 2,
    "word_vocab_size": len(VOCABULARY),
}
SHAPES = {
    "tiny": {},
    "two softmaxes": {"share_word_softmax": False},
    "deep": {"num_hidden_layers": 3, "num_highway_layers": 2},
    "no highway": {"num_highway_layers": 0},
    "no clips": {"cell_clip": None, "projection_clip": None},
    "no dropout": {"dropout": 0.0},
    "short rows": {"max_characters_per_word": 5},
}


def make_plan(objective, shape="tiny", **settings):
    config = make_tiny_config(**SHAPES[shape], **(ADAPTIVE if objective == "adaptive" else {}))
    config = with_softmax(config, len(VOCABULARY), objective)
    num_processes = settings.pop("num_processes", 1)
    sizes = {"per_device_train_batch_size": LANES, "unroll_steps": STEPS, "num_negative_samples": NEGATIVES}
    arguments = OptimizationArguments(objective=objective, **sizes, **settings).with_recipe()
    return TrainingPlan(config, arguments, num_processes)


def make_objective(plan, **options):
    model = ElmoForPreTraining(plan.config)
    return build_objective(plan.settings.objective, model, NEGATIVES, **options).train()


def make_window(plan):
    generator, settings = random.Random(0), plan.settings
    sentences = [generator.choices(WORDS, k=7) for _ in range(40)]
    tokenizer = ElmoCharTokenizer(max_characters_per_word=plan.config.max_characters_per_word)
    windows = fill_lanes(sentences, tokenizer, VOCABULARY, settings.per_device_train_batch_size, settings.unroll_steps)
    return next(itertools.islice(windows, 1, None))


def fill(window):
    """The window with a target per entry and no padding in its rows."""
    for targets in (window.forward_targets, window.backward_targets):
        targets.clamp_(min=0)
    window.rows.fill_(1)
    return window


def clusters_of(plan, window):
    """How many targets lie in each cluster behind the first."""
    if plan.settings.objective != "adaptive":
        return None
    targets = torch.cat([window.forward_targets.flatten(), window.backward_targets.flatten()])
    cutoffs = torch.tensor(plan.config.adaptive_softmax_cutoffs)
    return torch.bucketize(targets, cutoffs, right=True).bincount(minlength=len(cutoffs) + 1)[1:].tolist()


def kept_by_graph(objective, window, bf16):
    """Bytes of the distinct storages that autograd saves, parameters and the window's own left out."""
    known = {tensor.untyped_storage().data_ptr() for tensor in (*objective.parameters(), *vars(window).values())}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            # Kept alive too: another storage may else be given the same address.
            kept[storage.data_ptr()] = storage
        return tensor

    with (
        torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=bf16),
    ):
        loss = objective(window)
    assert loss.forward_sum.requires_grad
    return sum(storage.nbytes() for storage in kept.values())


@pytest.mark.parametrize(
    ("config", "published"),
    [(ElmoConfig.small, 13_593_296), (ElmoConfig.medium, 28_027_728), (ElmoConfig.original, 93_600_848)],
)
def test_published_models_have_as_many_parameters_as_published(config, published):
    counts = TrainingPlan(with_softmax(config(), 793_471, "full"), OptimizationArguments()).parameters
    softmax, mixes = counts.pop("word softmax"), counts.pop("mixes")
    # The published number knows no row for padding.
    assert sum(counts.values()) == published + config().character_embedding_size
    assert softmax == 793_471 * (config().projection_size + 1) and mixes == config().num_hidden_layers + 2


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("objective", ["full", "adaptive"])
def test_parts_are_those_of_a_real_model(objective, shape):
    plan = make_plan(objective, shape)
    counts = plan.parameters
    model = ElmoForPreTraining(plan.config)
    assert sum(counts.values()) == model.num_parameters()
    assert counts["bilm"] == sum(parameter.numel() for parameter in model.elmo.bilm.parameters())
    softmaxes = {id(softmax): softmax for softmax in model.word_softmaxes}.values()
    assert counts["word softmax"] == sum(p.numel() for softmax in softmaxes for p in softmax.parameters())
    assert plan.training_bytes["weights"] == sum(parameter.nbytes for parameter in model.parameters())


@pytest.mark.parametrize("optim", ["adamw", "adagrad", "muon"])
@pytest.mark.parametrize("objective", ["full", "sampled", "adaptive"])
def test_gradients_and_optimizer_states_are_as_large_as_computed(objective, optim):
    # Of two processes, whose gradients are dense.
    plan = make_plan(objective, "two softmaxes", optim=optim, num_processes=2)
    objective = make_objective(plan)
    objective(make_window(plan)).mean.backward()
    trained = [parameter for parameter in objective.parameters() if parameter.requires_grad]
    groups = [{"params": trained, "lr": 0.1, "weight_decay": 0.0}]
    optimizer = build_optimizer(optim, split_groups(groups, objective.model, plan.settings.matrix_rate))
    optimizer.step()
    states = [value for state in optimizer.state.values() for value in state.values()]
    assert plan.training_bytes["gradients"] == sum(parameter.grad.nbytes for parameter in trained)
    assert plan.training_bytes["optimizer states"] == sum(value.nbytes for value in states)


def test_sparse_gradients_hold_the_rows_looked_up():
    plan = make_plan("sampled", optim="adagrad")
    objective, window = make_objective(plan, sparse_gradients=True), make_window(plan)
    objective(window).mean.backward()
    gradients = [parameter.grad for parameter in objective.parameters() if parameter.grad is not None]
    parts = [(grad._indices(), grad._values()) if grad.is_sparse else (grad,) for grad in gradients]
    found = sum(part.nbytes for part in itertools.chain(*parts))
    # The window has targets at all places but those where a sentence opens.
    missing = 2 * (plan.entries_per_window - window.num_targets)
    assert found == plan.training_bytes["gradients"] - missing * (4 * plan.config.projection_size + 8)


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("objective", ["full", "sampled", "adaptive"])
def test_a_graph_keeps_what_few_words_of_it_let_expect(objective, shape, bf16):
    plan = make_plan(objective, shape, bf16=bf16)
    window = fill(make_window(plan))
    with kernels.use_backend("plain"):
        found = kept_by_graph(make_objective(plan), window, bf16)
    assert found == plan.kept_bytes(len(window.rows), clusters_of(plan, window))


def test_a_graph_without_projections_is_measured_by_the_readable_scan():
    plan = make_plan("full")
    sizes = {"projection_size": 8, "cell_size": 8, "filters": [[1, 4], [2, 4]], "hidden_size": None}
    config = {**plan.config.to_dict(), **sizes, "project_hidden": False, "project_tokens": False}
    plan = replace(plan, config=ElmoConfig.from_dict(config))
    window = fill(make_window(plan))
    with kernels.use_backend("readable"):
        found = kept_by_graph(make_objective(plan), window, bf16=False)
    assert found == plan.kept_bytes(len(window.rows), clusters_of(plan, window))


@pytest.mark.parametrize("objective", ["full", "sampled", "adaptive"])
def test_a_window_as_it_comes_keeps_less_than_a_full_one(objective):
    plan = make_plan(objective)
    window = make_window(plan)
    with kernels.use_backend("plain"):
        found = kept_by_graph(make_objective(plan), window, bf16=False)
    most = plan.kept_bytes(len(window.rows), clusters_of(plan, fill(window)))
    assert most / 5 < found < most


@pytest.mark.parametrize("objective", ["full", "sampled", "adaptive"])
def test_what_is_kept_grows_linearly(objective):
    """Of real windows: by lanes, by words of a window and by words of the vocabulary."""
    for lanes, steps, vocab_size in ((2, 6, 30), (3, 9, 61), (7, 4, 300)):
        plan = make_plan(objective)
        settings = replace(plan.settings, per_device_train_batch_size=lanes, unroll_steps=steps)
        plan = replace(plan, settings=settings, config=with_softmax(plan.config, vocab_size, objective))
        window = fill(make_window(plan))
        with kernels.use_backend("plain"):
            found = kept_by_graph(make_objective(plan), window, bf16=False)
        assert found == plan.kept_bytes(len(window.rows), clusters_of(plan, window))


@pytest.mark.parametrize("objective", ["full", "sampled", "adaptive"])
@pytest.mark.parametrize("most", [fused_losses.MOST_BLOCK_LOGITS, 60])
def test_a_softmax_works_on_the_logits_of_a_gpu(objective, most, monkeypatch):
    sizes, normalize = [], fused_losses._normalize
    for name in ("FULL_BLOCK_LOGITS", "SAMPLED_BLOCK_LOGITS"):
        # In blocks as large as those of a GPU.
        monkeypatch.setattr(fused_losses, name, most)
    monkeypatch.setattr(plan_module, "MOST_BLOCK_LOGITS", most)
    monkeypatch.setattr(fused_losses, "_normalize", lambda *room: sizes.append(room[0].numel()) or normalize(*room))
    plan = make_plan(objective)
    make_objective(plan)(fill(make_window(plan)))
    found = plan.step_bytes["softmax at work on a GPU"] // (2 * 4)
    # Whole targets stay below the bound.
    assert max(sizes) <= found and (found == max(sizes) or found == most < max(sizes) + len(VOCABULARY))


def test_a_ring_sends_nothing_alone_and_nearly_twice_the_gradients_at_most():
    held = {count: make_plan("full", num_processes=count).training_bytes for count in (1, 2)}
    gradients = held[1]["gradients"]
    sent = [make_plan("full", num_processes=count).all_reduce_bytes for count in (1, 2, 8, 1000)]
    assert sent[:3] == [0, gradients, 2 * 7 / 8 * gradients] and sent[2] < sent[3] < 2 * gradients
    assert held[1]["buckets of gradients"] == 0 < held[2]["buckets of gradients"]


def test_distinct_words_are_those_of_the_law():
    words, vocab_size = 300, 500
    plan = make_plan("full")
    settings = replace(plan.settings, per_device_train_batch_size=words // STEPS)
    plan = replace(plan, settings=settings, config=with_softmax(plan.config, vocab_size, "full"))
    tries = LogUniformSampler(vocab_size, 1)._draw_tries(200 * words).view(200, words)
    found = sum(len(row.unique()) for row in tries) / len(tries)
    # Two hundred means of some 150: to the nearest few.
    assert abs(found - plan.expected_distinct_words()) < 5


def test_targets_of_clusters_are_those_of_the_law():
    plan = make_plan("adaptive")
    tries = LogUniformSampler(len(VOCABULARY), 1)._draw_tries(20_000)
    found = Counter((tries.unsqueeze(1) >= torch.tensor(plan.config.adaptive_softmax_cutoffs)).sum(dim=1).tolist())
    expected = replace(plan, settings=replace(plan.settings, unroll_steps=10_000 // LANES)).expected_cluster_targets()
    assert all(abs(found[index + 1] - count) < 500 for index, count in enumerate(expected))


@pytest.mark.parametrize(("num_files", "num_processes"), [(4, 2), (3, 2), (1, 2), (6, 3), (2, 1)])
def test_each_process_reads_the_share_of_files_that_is_computed(tmp_path, num_files, num_processes):
    for number in range(num_files):
        (tmp_path / f"{number}.txt").write_text("".join(f"{number} {line}\n" for line in range(6)))
    corpus = corpus_from_files([str(tmp_path / "*.txt")])
    shards = [list(corpus.shard(rank, num_processes).sentences(str.split)) for rank in range(num_processes)]
    assert sorted(map(tuple, itertools.chain(*shards))) == sorted(map(tuple, corpus.sentences(str.split)))
    files = [{number for number, _ in shard} for shard in shards]
    share = share_read(num_files, num_processes)
    assert all(len(of_shard) == share * num_files for of_shard in files) or num_files < num_processes


def test_counting_takes_no_more_disk_than_computed(tmp_path):
    counter = WordCounter(max_words_in_memory=50, directory=tmp_path)
    generator = random.Random(0)
    words = [f"{generator.randrange(400):05d}" for _ in range(4000)]
    for start in range(0, len(words), 4):
        counter.add(words[start : start + 4])
    found = sum(file.tell() for file in counter._files)
    counter.close()
    assert 0 < found <= counting_disk_bytes(len(words), len(set(words)), 5, max_words_in_memory=50)
    assert counting_disk_bytes(len(words), len(set(words)), 5, max_words_in_memory=len(set(words))) == 0


def test_states_in_a_checkpoint_are_those_of_the_lanes():
    plan = make_plan("full", num_processes=3)
    held = plan.training_bytes
    with torch.no_grad():
        state = make_objective(plan)(make_window(plan)).state
    states = 3 * (state.hidden.nbytes + state.cell.nbytes)
    assert plan.checkpoint_bytes == held["weights"] + held["optimizer states"] + states


def test_objectives_that_cannot_be_are_refused():
    plan = make_plan("sampled")
    with pytest.raises(ValueError, match="num_negative_samples"):
        replace(plan, settings=replace(plan.settings, num_negative_samples=len(VOCABULARY))).kept_bytes()
    with pytest.raises(ValueError, match="softmax_type"):
        replace(make_plan("full"), config=make_plan("adaptive").config).kept_bytes()
