"""What the README and the pages of docs/ say is so: their Python runs, flags exist, figures are measured."""

import ast
import contextlib
import importlib
import importlib.util
import io
import json
import re
import shlex

import pytest
import torch
import yaml
from benchmark.report import render_words_per_second
from command_parsers import command_parsers
from conftest import ROOT, make_tiny_config

import hf_elmo
from hf_elmo.text.vocabulary import SPECIAL_WORDS, WordVocabulary

PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (
        *(ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "model_cards" / "speedrun" / "README.md"),
        *sorted((ROOT / "docs").glob("*.md")),
    )
}
README = PAGES["README.md"]
# Libraries that the examples of a page need and that the tests' environment may lack.
EXTRAS = {"docs/flair_and_spacy.md": ("flair", "spacy")}


def flags_of(command):
    return {name[2:] for action in command_parsers()[command]._actions for name in action.option_strings}


def blocks(page):
    return re.findall(r"```(\w+)\n(.*?)```", PAGES[page], flags=re.DOTALL)


WITH_PYTHON = [page for page in PAGES if any(language == "python" for language, _ in blocks(page))]


def commands_on(page):
    """The words of `hf-elmo` in blocks and in sentences: a command, and what stands behind it."""
    shell = [block for language, block in blocks(page) if language == "bash"]
    for line in "\n".join(shell + re.findall(r"`(hf-elmo [^`]+)`", PAGES[page])).splitlines():
        if found := re.search(r"(?:hf-elmo|-m hf_elmo) ((?:probe|show|train) [\w-]+|[a-z]\S*)(.*)", line):
            yield found.groups()


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """A folder with the checkpoints that the examples name, small ones of random weights."""
    folder = tmp_path_factory.mktemp("examples")
    torch.manual_seed(0)  # before the test's own seed: else its weights would be those of whatever ran before
    words = WordVocabulary([*SPECIAL_WORDS, *"a call returns the return value of .".split()])
    scored = {"projection_size": 64, "word_vocab_size": len(words)}
    roles = hf_elmo.SemanticRoleLabelingHead(hidden_size=4, num_layers=2, find_predicates=True)
    pairs = hf_elmo.SequenceClassificationHead(encoder="pooled_pairs", hidden_size=4)
    coreference = hf_elmo.CoreferenceHead(lstm_size=3, hidden_size=4)
    entailment = {"head": pairs, "problem_type": "single_label_classification"}
    for name, kind, pre_tokenizer, labels, fields in (
        ("elmo-tiny-pydoc", "PreTraining", "punctuation", "", scored),
        ("elmo-original", "PreTraining", "whitespace", "", scored),
        ("my-tagger", "TokenClassification", "punctuation", "O B-PER I-PER", {"projection_size": 64}),
        ("my-reader", "QuestionAnswering", "penn", "", {"head": hf_elmo.QuestionAnsweringHead(hidden_size=4)}),
        ("my-roles", "SemanticRoleLabeling", "penn", "O B-V I-V B-ARG0 I-ARG0", {"head": roles}),
        ("my-entailment", "SequenceClassification", "penn", "contradiction entailment neutral", entailment),
        ("my-coreference", "CoreferenceResolution", "penn", "", {"head": coreference}),
    ):
        given = {"id2label": dict(enumerate(labels.split())), **fields} if labels else fields
        getattr(hf_elmo, f"ElmoFor{kind}")(make_tiny_config(**given)).save_pretrained(folder / "output" / name)
        hf_elmo.ElmoCharTokenizer(pre_tokenizer=pre_tokenizer).save_pretrained(folder / "output" / name)
        words.save(folder / "output" / name)
    (folder / "model_cards").symlink_to(ROOT / "model_cards")
    return folder


@pytest.mark.parametrize("page", WITH_PYTHON)
def test_python_blocks_run(page, examples, monkeypatch):
    """In one namespace and in their order; a text block right after a Python block is what that one prints."""
    for library in EXTRAS.get(page, ()):
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"the page needs {library}")
        # As the entry points of an installed hf_elmo do; the checkout may be another one than what is installed.
        importlib.import_module(f"hf_elmo.{library}")
    monkeypatch.chdir(examples)
    namespace = {}
    printed = None
    for language, block in blocks(page):
        if language == "python":
            stream = io.StringIO()
            with contextlib.redirect_stdout(stream):
                exec(compile(block, page, "exec"), namespace)
            printed = stream.getvalue()
        elif language == "text" and printed is not None:
            assert printed.strip() == block.strip()
        else:
            printed = None


def test_the_readme_is_short_and_its_first_block_has_at_most_eight_lines():
    assert len(README.splitlines()) <= 140
    language, block = blocks("README.md")[0]
    assert language == "python" and len([line for line in block.splitlines() if line.strip()]) <= 8


@pytest.mark.parametrize("page", PAGES)
def test_flags_links_and_targets_of_make_exist(page):
    """Also a `--flag` in the running text is one of some command, or of a program that is named here."""
    for command, line in commands_on(page):
        assert {word[2:].partition("=")[0] for word in shlex.split(line) if word.startswith("--")} <= flags_of(command)
    text = re.sub(r"```.*?```", "", PAGES[page], flags=re.DOTALL)
    others = {"extra", "index-url", "allennlp", "other_checkout"}
    assert set(re.findall(r"`--([\w-]+)", text)) <= set().union(others, *map(flags_of, command_parsers()))
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", PAGES[page]):
        assert ((ROOT / page).parent / target).exists(), target
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"(?:`|^)make ([a-z-]+)", PAGES[page], flags=re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["version"], citation["license"]) == (hf_elmo.__version__, "Apache-2.0")
    assert citation["references"][0]["year"] == 2018


# What the package leans on


def leaned_on():
    """Names of other packages that are not of their front: from their modules, and private ones of torch."""
    packages = {"transformers", "torch", "accelerate", "datasets", "huggingface_hub"}
    public = ("torch.nn", "torch.utils.data")
    for path in sorted((ROOT / "hf_elmo").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            module = getattr(node, "module", None) or ""
            is_theirs = isinstance(node, ast.ImportFrom) and not node.level and module.split(".")[0] in packages
            if is_theirs and "." in module and not module.startswith(public):
                yield from (f"{module}.{name.name}" for name in node.names)
        yield from re.findall(r"torch\.(?:_[A-Za-z]\w*|ops\.(?!hf_elmo)\w+)(?:\.\w+)*", text)


def test_all_that_is_leaned_on_is_listed_with_tests_that_are_there():
    page = PAGES["docs/api-compat.md"]
    listed = set(re.findall(r"`([\w.]+)`", page))
    missing = {name for name in leaned_on() if name not in listed}
    assert not missing, f"enter in docs/api-compat.md: {sorted(missing)}"
    for test in re.findall(r"`(tests/[\w/.]+)`", page):
        assert (ROOT / test).exists(), test


# Figures


def figures(path):
    return json.loads((ROOT / "model_cards" / path).read_text(encoding="utf-8"))


def between(page, mark):
    return PAGES[page].split(f"<!-- {mark} -->")[1].split(f"<!-- /{mark} -->")[0].strip()


def row_of(text, start):
    return next(line for line in text.splitlines() if line.startswith(start))


def test_the_speed_table_is_that_of_the_benchmark():
    assert between("README.md", "speed") == render_words_per_second(figures("benchmark/benchmark.json"))


def figures_of_runs():
    """What stands in a row, a paragraph or a page, and the figures of results files that have to stand there."""
    page = PAGES["docs/pretraining.md"]
    for folder in sorted((ROOT / "model_cards").glob("elmo-*")):
        name = folder.name
        found = figures(f"{name}/results.json")
        mean, baselines = found["perplexity"]["mean"], found["baselines"]
        cells = f"| {mean / baselines['bigram']:.2f} | {mean:,.1f} | {baselines['bigram']:,.1f} |"
        yield row_of(page, f"| `{name}` |"), [f"{cells} {baselines['unigram']:,.1f} |"]
    for name in ("paper", "modern"):
        found = figures(f"recipes/{name}.json")
        cells = [f"| {found[key]['mean']:,.1f} " for key in ("perplexity", "perplexity_cold")]
        row = row_of(between("docs/pretraining.md", "recipes"), f"| `{name}` |")
        yield row, [*cells, f"| {found['words_trained'] / 1e6:.2f} M "]
    hour, card = figures("speedrun/hour-cell-1024.json"), PAGES["model_cards/speedrun/README.md"]
    best, baselines = hour["perplexity"]["mean"], figures("speedrun/baselines/baselines.json")["baselines"]
    unigram, bigram = baselines["unigram"], baselines["bigram"]
    yield card, [f"unigram model of these words has {unigram:.1f}, a bigram model {bigram:.1f} "]
    yield card, [f"{each['words'] / 1e6:.1f} million" for each in hour["evaluations"][1:-1]]
    yield card, [f"{each['mean']:.1f}" for each in hour["evaluations"][1:-1]]
    yield card, [f"{best / bigram:.2f} of the bigram's", f"sentence alone, {hour['perplexity_cold']['mean']:.1f}"]
    yield page, [f"held-out perplexity of {best:.1f} on novels where a bigram model has {bigram:.1f}"]
    report = (ROOT / "model_cards" / "benchmark" / "training.md").read_text(encoding="utf-8")
    share = re.search(r"^\| training loop, full softmax \| forward \+ backward \| ([\d.]+) \|", report, re.MULTILINE)[1]
    yield row_of(page, "The loop reaches "), [f"The loop reaches {share} of"]
    large = figures("benchmark/cuda/large.json")
    yield row_of(page, "So the Original size"), [f"took {large['peak_memory_bytes'] / 1e9:.1f} GB"]
    card = (ROOT / "model_cards" / "benchmark" / "README.md").read_text(encoding="utf-8")
    at = {
        (case["case"], name, case["size"], case["batch_size"]): function["median"]
        for file in ("benchmark", "training")
        for case in figures(f"benchmark/cuda/{file}.json")["timings"]
        for name, function in case["functions"].items()
    }
    step, whole, loop = "training step of the biLM", "words to vectors", "pre-training loop, sampled softmax"
    for case, name, lanes in (
        *((step, each, 32) for each in ("plain", "auto", "AllenNLP")),
        *((whole, each, 32) for each in ("plain", "AllenNLP")),
        *((loop, each, 128) for each in ("forward + backward", "step")),
    ):
        yield card, ["| {:.1f} ms | {:.1f} ms |".format(*(1e3 * at[case, name, size, lanes] for size in BOTH_SIZES))]
    gains = [at[step, "plain", size, 32] / at[step, "auto", size, 32] for size in BOTH_SIZES]
    there = "{:.1f} times as fast at the small size and {:.1f} times at the original one".format(*gains)
    yield PAGES["docs/kernels.md"], [there]
    reading = figures("elmo-base/reading.json")
    added = [f"{reading[name]['added_r2']:.4f} ± {reading[name]['standard_error']:.4f}" for name in READERS]
    page = PAGES["docs/reading_times.md"]
    assert [line.split("|")[2].strip() for line in page.splitlines() if line[:1] == "|" and "±" in line] == added
    yield page, [f"on {reading['forward']['words']:,} words"]


READERS = ("forward", "backward", "gpt3")
BOTH_SIZES = ("small", "original")


def test_figures_are_those_of_their_results_files():
    for text, wanted in figures_of_runs():
        assert all(figure in text for figure in wanted), (text[:200], wanted)
    assert figures("benchmark/memory.json")["training"]["is_flat"] is True
