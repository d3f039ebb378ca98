"""A GPU gives what a CPU gives: scans, models, their training and what is built on them; skipped without one."""

import json

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from class_cases import (
    ADAPTIVE,
    CASES,
    LEARNERS,
    VARIANTS,
    build,
    data_of,
    loss_of,
    make_batch,
    make_inputs,
    tensors_of,
    without_dropout,
)
from conftest import make_tiny_config
from run_cases import LINES, TINY, assert_same_run, make_arguments, train, train_in_part, write_corpus, write_lines
from scan_cases import make_batch as make_scan
from scan_cases import relative_error, results_and_gradients
from tolerances import BFLOAT16, FLOAT16, LOSS_FLOAT32, REORDERED_FLOAT64
from transformers import AutoModel, AutoTokenizer, Trainer, TrainingArguments, pipeline

from hf_elmo import ElmoCharTokenizer, ElmoConfig, ElmoEmbedder, ElmoForCausalLM, ElmoForPreTraining, ElmoModel, kernels
from hf_elmo.cli.command_line import main
from hf_elmo.inference.scoring import ElmoScorer
from hf_elmo.kernels import graphs
from hf_elmo.model.modeling_elmo import ProjectedLSTMWeights, run_projected_lstm, scan_projected_lstm
from hf_elmo.pretraining.run import run_pretraining
from hf_elmo.text.vocabulary import SPECIAL_WORDS, WordVocabulary

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="`make test-cuda` asks a GPU"),
    pytest.mark.usefixtures("accelerate_anew"),
]

DEVICE = "cuda"
# Of float32: a GPU's products and functions round in other places than a CPU's. Norms, relative.
OTHER_DEVICE = 1e-5
# With factors of ten binary digits, by weights that are large.
TF32 = 2e-2
TOLERANCES = {
    torch.float64: REORDERED_FLOAT64,
    torch.float32: OTHER_DEVICE,
    torch.bfloat16: 2 * BFLOAT16,
    torch.float16: 5 * FLOAT16,
}


def put(tensors, device=DEVICE):
    return {key: tensor.to(device) for key, tensor in tensors.items()}


def assert_near(found, wanted, tolerance):
    """Named tensors of a GPU beside those of a CPU, which may differ by a part of the largest number."""
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert found[name].device.type == DEVICE, name
        finite = tensor[tensor.isfinite()].double().abs()
        largest = max(1.0, float(finite.max())) if len(finite) else 1.0
        torch.testing.assert_close(found[name].cpu(), tensor, rtol=0, atol=tolerance * largest, msg=name)


# Scans


@pytest.mark.parametrize(
    ("backend", "dtype"),
    # The reference rounds each sum of halves.
    [("reference", torch.float64), ("reference", torch.float32), *(("plain", dtype) for dtype in TOLERANCES)],
    ids=str,
)
@pytest.mark.parametrize("sizes", [(1, 6, 37, 150), (9, 4, 128, 40), (49, 3, 256, 64)])
def test_scans_are_the_reference_of_a_cpu(backend, dtype, sizes):
    vectors, mask, weights, state = make_scan(*sizes, masked=True, stateful=True)
    settings = {"cell_clip": 0.5, "projection_clip": 0.3}

    def batch(**kind):
        """What numbers of the dtype there are, in any dtype and on any device."""
        to = [
            tensor.to(dtype).to(**kind)
            for tensor in (vectors, *(weight / sizes[2] ** 0.5 for weight in weights), *state)
        ]
        return to[0], mask.to(kind["device"]), ProjectedLSTMWeights(*to[1:5]), tuple(to[5:])

    def run(*arguments, **settings):
        with kernels.use_backend(backend):
            return run_projected_lstm(*arguments, **settings)

    wanted, wanted_gradients = results_and_gradients(
        scan_projected_lstm, *batch(device="cpu", dtype=torch.float64), **settings
    )
    there = batch(device=DEVICE, dtype=dtype)
    found, gradients = results_and_gradients(run, *there, **settings)
    with torch.no_grad():
        outputs, new_state = run(*there, **settings)
    for one, other in zip(
        [outputs, *new_state, *found, *gradients], [*wanted, *wanted, *wanted_gradients], strict=True
    ):
        assert (one.dtype, one.device.type) == (dtype, DEVICE)
        assert relative_error(one.detach().cpu(), other.detach()) < TOLERANCES[dtype]


def test_windows_of_training_have_the_bits_of_their_single_steps():
    """Recorded at the second call; each later one reads its own tensors and leaves those of the others alone."""
    kernels.free_buffers()
    kept = []
    for number in range(4):
        torch.manual_seed(number)
        vectors, _, weights, state = make_scan(32, 20, 128, 256, masked=False, stateful=True)
        weights = [weight / 128**0.5 for weight in weights]
        batch = [tensor.to(DEVICE, torch.float32) for tensor in (vectors, *weights, *state)]
        results = []
        for name in ("plain", "auto"):
            with kernels.use_backend(name):
                arguments = batch[0], None, ProjectedLSTMWeights(*batch[1:5]), tuple(batch[5:])
                found, gradients = results_and_gradients(run_projected_lstm, *arguments, cell_clip=0.5)
                results.append([*found, *gradients])
        kept.append(results)
        assert sum(each is not None for each in graphs._recordings.values()) == (2 if number else 0)
        for wanted, found in kept:
            assert all(map(torch.equal, found, wanted))


# Models


def results_of(model, batch, run=None):
    """All outputs and all gradients by name, those of a call of `run` where the model is not called itself."""
    output = (model if run is None else run)(**batch)
    loss_of(output).backward()
    gradients = {f"grad {name}": p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {**{name: tensor.detach() for name, tensor in tensors_of(output)}, **gradients}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("name", VARIANTS)
def test_outputs_and_gradients_are_those_of_a_cpu(name, dtype):
    # Without the fewer digits by which cuDNN multiplies unless told.
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        wanted, found = (
            results_of(without_dropout(build(name, dtype, freeze_bilm=False)).to(device).train(), put(batch, device))
            for batch, device in ((make_batch(name), "cpu"), (make_batch(name), DEVICE))
        )
    # Losses are of float32 in any model.
    assert_near(found, wanted, 10 * OTHER_DEVICE if dtype == torch.float32 else LOSS_FLOAT32)


@pytest.mark.parametrize("name", VARIANTS)
def test_what_is_said_of_rows_is_the_same_by_default(name):
    """With PyTorch's own settings; the recurrence of a task's head, by cuDNN, has fewer digits by them."""
    batch = make_inputs(name, side="left")
    with torch.no_grad():
        wanted, found = (dict(tensors_of(build(name).to(device)(**put(batch, device)))) for device in ("cpu", DEVICE))
    assert found.keys() == wanted.keys()
    for key, tensor in wanted.items():
        tolerance = OTHER_DEVICE if CASES[VARIANTS[name][0]].cls in (ElmoModel, ElmoForPreTraining) else TF32
        torch.testing.assert_close(found[key].cpu(), tensor, rtol=tolerance, atol=tolerance, msg=key)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_half_precision_trains_whole_and_by_autocast(name, dtype):
    half, mixed = (build(name, kind, freeze_bilm=False).to(DEVICE).train() for kind in (dtype, torch.float32))
    batch = put(make_batch(name))
    with torch.autocast(DEVICE, dtype=dtype):
        loss = loss_of(mixed(**batch))
    for model, its in ((half, loss_of(half(**batch))), (mixed, loss)):
        assert its.dtype == torch.float32 and its.isfinite()
        its.backward()
        for key, p in model.named_parameters():
            assert p.grad is None or (p.grad.isfinite().all() and p.grad.dtype == p.dtype), key


@pytest.mark.parametrize("name", ["word vectors", "pretraining"])
def test_a_compiled_model_gives_the_same(name):
    model, batch = without_dropout(build(name)).to(DEVICE).train(), put(make_batch(name))
    torch._dynamo.reset()
    wanted = {key: value.clone() for key, value in results_of(model, batch).items()}
    model.zero_grad()
    found = results_of(model, batch, torch.compile(model, fullgraph=True))
    assert_near(found, {key: value.cpu() for key, value in wanted.items()}, 10 * OTHER_DEVICE)


@pytest.mark.parametrize("preset", ["small", "original"])
def test_published_sizes_give_the_vectors_of_a_cpu(preset, tmp_path):
    torch.manual_seed(0)
    ElmoModel(getattr(ElmoConfig, preset)()).save_pretrained(tmp_path)
    ElmoCharTokenizer().save_pretrained(tmp_path)
    sentences = [line.split() for line in LINES] + [("It was " * 40).split(), []]
    exact, fast = (ElmoEmbedder(str(tmp_path), device=device) for device in ("cpu", None))
    assert fast.device.type == DEVICE
    for wanted, found in zip(
        exact.embed_sentences(sentences, "all"), fast.embed_sentences(sentences, "all"), strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=OTHER_DEVICE)
    kernels.cache_words(fast.model.token_encoder, max_words=100)
    for _ in range(2):
        for wanted, found in zip(exact.embed_sentences(sentences), fast.embed_sentences(sentences), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=0, atol=OTHER_DEVICE)
    loaded = AutoModel.from_pretrained(tmp_path, device_map=DEVICE)
    batch = AutoTokenizer.from_pretrained(tmp_path)(["It sat ."], return_tensors="pt")
    with torch.no_grad():
        found = loaded(**batch.to(DEVICE)).last_hidden_state[0, 1:-1]
    np.testing.assert_allclose(found.cpu().numpy(), exact.embed_sentence("It sat ."), rtol=0, atol=OTHER_DEVICE)


@pytest.mark.parametrize("softmax", [{}, ADAPTIVE], ids=["one", "adaptive"])
def test_scores_and_generated_words_are_those_of_a_cpu(softmax, tmp_path):
    vocabulary = WordVocabulary([*SPECIAL_WORDS, *"the cat sat on a mat dog ran to park and back .".split()])
    torch.manual_seed(1)
    model = ElmoForPreTraining(make_tiny_config(word_vocab_size=len(vocabulary), **softmax))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-0.7, 0.7)
    model.save_pretrained(tmp_path)
    ElmoCharTokenizer().save_pretrained(tmp_path)
    vocabulary.save(tmp_path)
    sentences = ["the cat sat on the mat .", "a zebra ran .", "", "to and back to the park and back ."]
    exact, fast = (ElmoScorer(str(tmp_path), device=device) for device in ("cpu", None))
    assert fast.device.type == DEVICE
    for wanted, found in zip(exact.score_sentences(sentences), fast.score_sentences(sentences), strict=True):
        for name in ("forward", "backward", "joint"):
            np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=0, atol=OTHER_DEVICE)
    assert fast.perplexity(sentences) == pytest.approx(exact.perplexity(sentences), rel=OTHER_DEVICE)
    words = []
    for device in ("cpu", DEVICE):
        speaker = ElmoForCausalLM.from_pretrained(tmp_path).to(device)
        start = torch.tensor([[0, vocabulary.words.index("the")]], device=device)
        words.append(speaker.generate(start, max_new_tokens=8, do_sample=False).tolist())
    assert words[0] == words[1]


# Training


SAMPLED = {"num_negative_samples": 5, "objective": "sampled"}
ADAPTIVE_RUN = {"objective": "adaptive", "config_overrides": TINY.replace('n_size": 8', 'n_size": 16')}


@pytest.mark.parametrize("changes", [{}, SAMPLED, ADAPTIVE_RUN], ids=["full", "sampled", "adaptive"])
def test_pretraining_learns_what_it_learns_on_a_cpu(changes, tmp_path, accelerate_anew):
    histories = []
    for on_cpu in (True, False):
        folder = tmp_path / str(on_cpu)
        folder.mkdir()
        write_lines(folder)
        accelerate_anew()
        accelerator = Accelerator(cpu=True) if on_cpu else None
        results = run_pretraining(make_arguments(folder, **changes), accelerator, report=lambda line: None)
        histories.append([entry["mean"] for entry in results["evaluations"]])
        assert results["peak_memory_bytes"] > 0
    assert len(set(histories[0])) == 3
    np.testing.assert_allclose(histories[1], histories[0], rtol=1e-4)


@pytest.mark.parametrize(
    "changes",
    [{}, {"recipe": "paper", **SAMPLED}, {"bf16": True, "optim": "adamw"}],
    ids=["modern", "paper", "bf16"],
)
def test_a_run_that_is_resumed_or_has_no_graphs_ends_with_the_same_bits(changes, tmp_path, accelerate_anew):
    corpus = write_corpus(tmp_path)
    changes = {"max_steps": 20, "eval_steps": 10, "save_steps": 5, **changes}
    kernels.free_buffers()
    train(corpus, "whole", **changes)
    assert any(graphs._recordings.values())
    accelerate_anew()
    with kernels.use_backend("plain"):
        train(corpus, "plain", **changes)
    assert_same_run(corpus, "whole", "plain")
    accelerate_anew()
    train_in_part(corpus, "parts", 12, **changes)
    accelerate_anew()
    results = train(corpus, "parts", **changes, resume_from_checkpoint="last")
    assert results["resumed_from_steps"] == [10]
    assert_same_run(corpus, "whole", "parts")


@pytest.mark.parametrize("name", LEARNERS)
def test_a_trainer_learns_predicts_and_resumes(name, tmp_path):
    data, collator, size = data_of(name)

    def run(**how):
        torch.manual_seed(0)
        model = build(name, freeze_bilm=False)
        arguments = TrainingArguments(
            tmp_path,
            max_steps=5,
            save_steps=3,
            data_seed=7,
            learning_rate=0.01,
            per_device_train_batch_size=size,
            per_device_eval_batch_size=size,
            report_to=[],
            disable_tqdm=True,
        )
        trainer = Trainer(model, arguments, train_dataset=data, eval_dataset=data, data_collator=collator)
        trainer.train(**how)
        assert model.device.type == DEVICE
        return trainer.predict(data).metrics["test_loss"]

    whole = run()
    # Sums of gradients in another order each time: the first steps of an optimizer make much of small differences.
    assert run(resume_from_checkpoint=str(tmp_path / "checkpoint-3")) == pytest.approx(whole, rel=0.02)


def test_a_task_is_trained_with_kept_layers_and_applied_by_a_pipeline(tmp_path, capsys):
    make_tiny_config().save_pretrained(tmp_path / "architecture")
    ElmoCharTokenizer().save_pretrained(tmp_path / "architecture")
    rows = ["Anna\tB-PER", "sees\tO", "Oslo\tB-LOC", "", "Bert\tB-PER", "likes\tO", "Rome\tB-LOC", ""]
    (tmp_path / "train.conll").write_text("\n".join(rows * 30))
    flags = ["--model_name_or_path", tmp_path / "architecture", "--from_scratch"]
    flags += [f"--{split}_file={tmp_path / 'train.conll'}" for split in ("train", "validation", "test")]
    flags += ["--num_train_epochs", 12, "--learning_rate", 0.02, "--load_best_model_at_end", "--learn_words"]
    flags += ["--head", "lstm_layers=1", "lstm_size=8", "output_layer=crf", "word_vector_size=8"]
    flags += ["--layer_cache_dir", tmp_path / "layers", "--output_dir", tmp_path / "out"]
    main(["train", "token-classification", *map(str, flags)])
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["predict_f1"] == 1 and results["machine"]["accelerator"]
    capsys.readouterr()
    main(["predict", "Bert sees Oslo", "--model_name_or_path", str(tmp_path / "out")])
    assert "[PER Bert] sees [LOC Oslo]" in capsys.readouterr().out
    find = pipeline("token-classification", str(tmp_path / "out"), device=0, trust_remote_code=True)
    assert [entity["word"] for entity in find("Anna likes Rome")] == ["Anna", "Rome"]
