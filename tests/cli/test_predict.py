"""`hf-elmo predict`: what the pipeline of each task says, shown, written and drawn; and what is refused."""

import io
import json
import re
import sys

import pytest
import torch
from conftest import make_tiny_config
from html_reading import read_page
from transformers import pipeline

from hf_elmo import (
    CoreferenceHead,
    ElmoCharTokenizer,
    ElmoForCoreferenceResolution,
    ElmoForPreTraining,
    ElmoForQuestionAnswering,
    ElmoForSemanticRoleLabeling,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    QuestionAnsweringHead,
    SequenceClassificationHead,
    TokenClassificationHead,
)
from hf_elmo.cli.command_line import main
from hf_elmo.tasks.coreference import CoreferencePredictor
from hf_elmo.tasks.readers.columns import read_tagged_file
from hf_elmo.tasks.readers.documents import read_documents

TEXT = "Anna Smith sees Bert .\n\nno, one !\n"
CONTEXT = "The cat, which sat on the mat, was grey."
STORY = "Alice slept. Bob's cat saw her!\n\n“Who?” asked Mr. Hill.\n"


def save(folder, cls=ElmoForTokenClassification, pre_tokenizer="penn", names=None, **fields):
    torch.manual_seed(3)
    labels = {} if names is None else {"id2label": dict(enumerate(names))}
    model = cls(make_tiny_config(**fields, **labels))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-1, 1)
        if cls is ElmoForTokenClassification:
            model.classifier.bias[0] = -9.0  # so that there are spans
        if cls is ElmoForCoreferenceResolution:
            model.spans.scorer.output.bias.fill_(1)  # so that there are clusters
    model.save_pretrained(folder)
    ElmoCharTokenizer(pre_tokenizer=pre_tokenizer).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    folder = tmp_path_factory.mktemp("predict")
    crf = TokenClassificationHead(output_layer="crf", scheme="BIOES")
    coreference = CoreferenceHead(lstm_size=3, hidden_size=4, feature_size=2, mention_loss=1.0, keep_singletons=True)
    texts, pairs = (SequenceClassificationHead(encoder=encoder, hidden_size=4) for encoder in ("bcn", "esim"))
    classifier, spans = ElmoForSequenceClassification, ["O", "B-PER", "I-PER", "E-PER", "S-PER"]
    return {
        "spans": save(folder / "spans", pre_tokenizer="whitespace", names=spans, head=crf),
        "words": save(folder / "words", pre_tokenizer="whitespace", names=["NN", "VB"]),
        "texts": save(folder / "texts", classifier, names=["no", "yes"], head=texts),
        "pairs": save(folder / "pairs", classifier, names=["no", "yes"], head=pairs),
        "answers": save(folder / "answers", ElmoForQuestionAnswering, head=QuestionAnsweringHead(hidden_size=4)),
        "clusters": save(folder / "clusters", ElmoForCoreferenceResolution, head=coreference),
        "roles": save(folder / "roles", ElmoForSemanticRoleLabeling, names=["O", "B-V"]),
        "pre-trained": save(folder / "base", ElmoForPreTraining, word_vocab_size=9),
    }


@pytest.fixture
def predict(checkpoints, capsys):
    def run(kind, *words):
        capsys.readouterr()
        try:
            main(["predict", "--model_name_or_path", checkpoints[kind], "--device", "cpu", *map(str, words)])
            code = 0
        except SystemExit as ended:
            code = ended.code
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def files(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    (tmp_path / "story.txt").write_text(STORY, encoding="utf-8")
    (tmp_path / "blank.txt").write_text("\n \n")
    (tmp_path / "pairs.tsv").write_text("A man sleeps.\tHe dreams.\n\nIt's fun.\tNo.\n")
    (tmp_path / "asked.tsv").write_text(f"Who sat?\t{CONTEXT}\n\nWhere?\t{CONTEXT}\n")
    qas = [{"id": "one", "question": "Who sat?"}, {"id": "two", "question": "Where?", "answers": []}]
    data = [{"title": "t", "paragraphs": [{"context": CONTEXT, "qas": qas}]}]
    (tmp_path / "asked.json").write_text(json.dumps({"data": data}))
    return tmp_path


def read_html(file):
    return read_page(file.read_text(encoding="utf-8"))[0]


# Labels and spans of words


def test_sentences_of_the_command_are_shown(predict, checkpoints):
    code, shown, errors = predict("words", "Anna sees Bert .", "", "no")
    assert (code, errors) == (0, "")
    tagger = pipeline("token-classification", model=checkpoints["words"], ignore_labels=[])
    wanted = [" ".join(f"{one['word']}/{one['entity']}" for one in tagger(text)) for text in ("Anna sees Bert .", "no")]
    assert shown.split("\n") == [wanted[0], "", wanted[1], ""]
    code, shown, _ = predict("spans", "Anna Smith sees Bert .")
    assert code == 0 and "[PER " in shown
    assert shown.replace("[PER ", "").replace("]", "").split() == "Anna Smith sees Bert .".split()


@pytest.mark.parametrize("scheme", ["BIOES", "IOB2"])
def test_a_file_of_columns_is_what_the_pipeline_says(scheme, predict, checkpoints, files):
    out = files / "out.conll"
    options = ["--convert_scheme", scheme, "--max_words_per_batch", 8]
    code, shown, errors = predict("spans", "--input_file", files / "text.txt", "--output_file", out, *options)
    assert code == 0, errors
    assert "3 sentences." in shown
    written = read_tagged_file(out)
    assert written.words == [["Anna", "Smith", "sees", "Bert", "."], ["no,", "one", "!"]]
    tagger = pipeline("token-classification", model=checkpoints["spans"], aggregation_strategy="simple")
    found = [tagger(" ".join(words)) for words in written.words]
    assert [sum(label[0] in "BS" for label in labels) for labels in written.labels] == list(map(len, found))
    if scheme == "BIOES":
        plain = pipeline("token-classification", model=checkpoints["spans"], ignore_labels=[])
        assert [[one["entity"] for one in plain(" ".join(words))] for words in written.words] == written.labels
    code, _, errors = predict("spans", "--input_file", files / "text.txt", "--output_file", out)
    assert code == 2 and "--overwrite_output_file" in errors


def test_words_of_columns_are_predicted_and_where_text_is_wanted_refused(predict, files):
    (files / "gold.conll").write_text("Anna B-PER\nsmiled. O\n\nno O\n")
    code, shown, errors = predict("words", "--input_file", files / "gold.conll")
    assert (code, errors) == (0, "")
    assert [[word.rpartition("/")[0] for word in line.split()] for line in shown.splitlines()] == [
        ["Anna", "smiled."],
        ["no"],
    ]
    for kind in ("texts", "clusters"):
        code, _, errors = predict(kind, "--input_file", files / "gold.conll")
        assert code == 2 and f"input_file '{files / 'gold.conll'}' has a word on each line" in errors


def test_a_page_alone_shows_what_the_screen_would(predict, files, monkeypatch):
    for kind in ("spans", "words"):
        page = files / f"{kind}.html"
        code, shown, errors = predict(kind, "--input_file", files / "text.txt", "--html", page)
        assert code == 0 and f"{page}: 3 sentences." in shown, errors
        root = read_html(page)
        _, shown, _ = predict(kind, "--input_file", files / "text.txt")
        assert [text.own_text for text in root.of_class("text")] == [line for line in TEXT.splitlines() if line]
        marks = root.of_class("text")[0].of_class("mark") + root.of_class("text")[1].of_class("mark")
        assert len(marks) == shown.count("[" if kind == "spans" else "/") > 0
    monkeypatch.setattr("hf_elmo.cli.predict._MOST_DRAWN", 1)
    predict("words", "a b", "c", "d", "--html", files / "first.html")
    root = read_html(files / "first.html")
    assert [text.own_text for text in root.of_class("text")] == ["a b"]
    assert root.of_class("facts")[0].text.endswith("the first 1 of 3 sentences")


def test_standard_input_and_another_pre_tokenizer(predict, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Anna,Bert\n")))
    code, shown, _ = predict("words", "--input_file", "-", "--pre_tokenizer", "punctuation")
    assert code == 0 and [one.rpartition("/")[0] for one in shown.split()] == ["Anna", ",", "Bert"]


def test_sentences_are_read_whole_whatever_the_tokenizers_bound(predict, checkpoints, tmp_path):
    bounded = save(tmp_path / "bounded", pre_tokenizer="whitespace", names=["NN", "VB"])
    ElmoCharTokenizer(model_max_length=5).save_pretrained(bounded)
    checkpoints["bounded"] = bounded
    assert predict("bounded", "a b c d e f")[1] == predict("words", "a b c d e f")[1]


# Labels of texts


def test_labels_of_texts_are_those_of_the_pipeline(predict, checkpoints, files):
    judge = pipeline("text-classification", model=checkpoints["texts"], top_k=None)
    wanted = judge(["It's fun.", "A man sleeps and sleeps."])
    (files / "texts.txt").write_text("It's fun.\n\nA man sleeps and sleeps.\n")
    code, shown, errors = predict("texts", "It's fun.", "A man sleeps and sleeps.")
    assert code == 0, errors
    for line, best in zip(shown.splitlines(), wanted, strict=True):
        assert line.startswith(f"{best[0]['label']} {best[0]['score']:.3f}  ")
    assert predict("texts", "--input_file", files / "texts.txt")[1] == shown
    out = files / "out.tsv"
    code, shown, _ = predict("texts", "--input_file", files / "texts.txt", "--output_file", out)
    rows = [line.split("\t") for line in out.read_text().splitlines()]
    assert code == 0 and "2 texts" in shown
    assert rows[0] == ["id", "predicted", "p(no)", "p(yes)"] and [row[0] for row in rows[1:]] == ["0", "2"]
    for (_, label, *numbers), scores in zip(rows[1:], wanted, strict=True):
        by_label = {score["label"]: score["score"] for score in scores}
        assert label == scores[0]["label"]
        assert list(map(float, numbers)) == pytest.approx([by_label["no"], by_label["yes"]], abs=2e-6)


def test_pairs_come_with_a_tab_or_one_second_text(predict, files):
    code, shown, _ = predict("pairs", "A man sleeps.", "It's fun.", "--text_pair", "No.")
    assert code == 0 and shown.splitlines()[1].endswith("It's fun. | No.")
    assert predict("pairs", "It's fun.\tNo.")[1].splitlines() == shown.splitlines()[1:]
    outputs = ["--output_file", files / "out.jsonl", "--html", files / "out.html"]
    code, shown, errors = predict("pairs", "--input_file", files / "pairs.tsv", *outputs)
    records = [json.loads(line) for line in (files / "out.jsonl").read_text().splitlines()]
    assert code == 0 and "2 pairs" in shown, errors
    assert [(each["id"], each["sentence1"], each["sentence2"]) for each in records] == [
        (0, "A man sleeps.", "He dreams."),
        (2, "It's fun.", "No."),
    ]
    assert all(max(each["probabilities"], key=each["probabilities"].get) == each["predicted_label"] for each in records)
    root = read_html(files / "out.html")
    assert [text.text for text in root.of_class("text")] == ["A man sleeps.\nHe dreams.", "It's fun.\nNo."]
    assert [note.text.split()[0] for note in root.of_class("note")] == [each["predicted_label"] for each in records]


def test_tokenized_text_is_not_tokenized_again(predict, tmp_path):
    def numbers(text, *flags):
        out = ["--output_file", tmp_path / "out.tsv", "--overwrite_output_file"]
        assert predict("texts", text, *flags, *out)[0] == 0
        return (tmp_path / "out.tsv").read_text()

    assert numbers("It's fun.", "--text_is_tokenized") != numbers("It's fun.")
    assert numbers("It 's fun .", "--text_is_tokenized") == numbers("It's fun.")
    assert numbers("It 's fun .", "--pre_tokenizer", "whitespace") == numbers("It's fun.")


# Answers


def test_answers_are_those_of_the_pipeline(predict, checkpoints, files):
    answer = pipeline("extractive-question-answering", model=checkpoints["answers"], device="cpu")
    wanted = [answer(question=question, context=CONTEXT) for question in ("Who sat?", "Where?")]
    code, shown, errors = predict("answers", "Who sat?", "Where?", "--text_pair", CONTEXT)
    assert code == 0, errors
    for line, found in zip(shown.splitlines(), wanted, strict=True):
        assert line.startswith(f"{found['answer']!r} {found['score']:.3f} [{found['start']}:{found['end']}]")
    assert predict("answers", "--input_file", files / "asked.tsv")[1] == shown
    assert predict("answers", "--input_file", files / "asked.json")[1] == shown
    page, out = files / "found.html", files / "found.json"
    targets = ["--output_file", out, "--html", page]
    code, shown, errors = predict("answers", "--input_file", files / "asked.json", *targets)
    assert code == 0 and f"{out} and {page}: 2 questions" in shown, errors
    texts = [found["answer"] for found in wanted]
    assert json.loads(out.read_text()) == dict(zip(("one", "two"), texts, strict=True))
    predict("answers", "--input_file", files / "asked.tsv", "--output_file", files / "found.jsonl")
    records = [json.loads(line) for line in (files / "found.jsonl").read_text().splitlines()]
    assert [(record["id"], record["answer"]) for record in records] == [("0", texts[0]), ("2", texts[1])]
    assert all(record["answer"] == CONTEXT[record["start"] : record["end"]] for record in records)
    root = read_html(page)
    (context,) = root.of_class("text")
    assert context.own_text == CONTEXT and {mark.attributes["title"] for mark in context.of_class("mark")} == {
        "Who sat?",
        "Where?",
    }
    assert all(text in note.text for text, note in zip(texts, root.of_class("note"), strict=True))
    assert {"answers", "asked.json"} <= set(re.split(" · |model |text ", root.of_class("facts")[0].text))


# Clusters; roles stand beside their training, in tests/tasks


def test_clusters_in_files_and_on_a_page(predict, files):
    for name in ("found.json", "found.conll"):
        targets = ["--output_file", files / name, "--html", files / f"{name}.html"]
        code, _, errors = predict("clusters", "--input_file", files / "story.txt", *targets)
        assert code == 0, errors
    record = json.loads((files / "found.json").read_text(encoding="utf-8"))
    assert record["text"] == STORY.rstrip("\n") and record["clusters"]
    assert all(list(mention) == ["start", "end", "text"] for cluster in record["clusters"] for mention in cluster)
    document = read_documents(files / "found.conll")[0]
    assert document.name == "found" and len(document.sentences) == 3
    assert list(map(len, document.clusters)) == list(map(len, record["clusters"]))
    (text,) = read_html(files / "found.json.html").of_class("text")
    assert text.own_text == record["text"]
    wanted = [len(cluster) for cluster in record["clusters"] if len(cluster) > 1]
    labels = [child.text for mark in text.of_class("mark") for child in mark.children if child.name == "bdi"]
    assert [labels.count(str(number)) for number in range(1, len(wanted) + 1)] == wanted
    lines = predict("clusters", "--input_file", files / "story.txt")[1].splitlines()
    for line, cluster in zip(lines, record["clusters"], strict=True):
        places = [tuple(map(int, place)) for place in re.findall(r"\[(\d+):(\d+)\]", line)]
        assert places == [(mention["start"], mention["end"]) for mention in cluster]


def test_clusters_have_numbers_and_what_is_mentioned_once_has_none():
    text = "Al saw his cat. He fed it."
    places = [[(0, 2), (7, 10), (16, 18)], [(3, 6)], [(7, 14), (23, 25)]]
    clusters = [[{"text": text[a:b], "start": a, "end": b} for a, b in cluster] for cluster in places]
    (passage,) = CoreferencePredictor.draw(None, [(None, {"text": text, "clusters": clusters})])
    assert [(text[mark.start : mark.end], mark.label) for mark in passage.marks] == [
        *(("Al", "1"), ("his", "1"), ("He", "1"), ("saw", ""), ("his cat", "2"), ("it", "2"))
    ]
    assert passage.marks[1].title == "Al, mention 2 of 3" and passage.notes == ["1 Al (3) · 2 his cat (2)"]


# What is refused


@pytest.mark.parametrize(
    "kind, words, named",
    [
        ("words", [], "--input_file"),
        ("words", ["a", "--input_file", "text.txt"], "input_file 'text.txt'"),
        ("words", ["--input_file", "absent.txt"], "absent.txt"),
        ("words", ["a", "--max_words_per_batch", "0"], "max_words_per_batch is 0"),
        ("words", ["a", "--convert_scheme", "IOB2"], "convert_scheme is 'IOB2'"),
        ("spans", ["a", "--text_pair", "b"], "text_pair is 'b'"),
        ("pre-trained", ["a"], "ElmoForPreTraining"),
        ("pairs", ["one text"], "text 1 is 'one text'"),
        ("pairs", ["--input_file", "text.txt"], "'text.txt', line 1 is"),
        ("texts", ["--input_file", "blank.txt", "--output_file", "out.tsv"], "'blank.txt' holds no text"),
        ("answers", ["Who sat?"], "--text_pair"),
        ("answers", ["--input_file", "asked.json", "--text_pair", "a"], "text_pair"),
        ("answers", ["Who?\ta", "--text_is_tokenized"], "text_is_tokenized is True"),
        ("clusters", ["a", "--max_words_per_batch", "512"], "max_words_per_batch is 512"),
        ("clusters", [" "], "no text"),
        ("roles", ["a b"], "find_predicates"),
    ],
)
def test_mistakes_are_one_line(kind, words, named, predict, files, monkeypatch):
    monkeypatch.chdir(files)
    before = sorted(files.iterdir())
    code, shown, errors = predict(kind, *words)
    assert code == 2 and shown == "" and errors.count("\n") == 1 and named in errors, errors
    assert sorted(files.iterdir()) == before
