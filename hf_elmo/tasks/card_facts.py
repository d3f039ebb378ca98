"""What each task says of its model in the card."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..checkpoints.cards import TaskCard

_PREFIXES = {"test": "predict_", "validation": "eval_"}


def describe_task(config: Mapping[str, Any], results: Mapping[str, Any]) -> TaskCard:
    """The facts of a task's card, from the fields of the model's config and what results.json holds."""
    return _DESCRIBE[results["task"]](config, results)


def describe_inputs(head: Mapping[str, Any]) -> str:
    """What a task reads of each word, in some words.

    Args:
        head: The settings of its head, as in config.json.
    """
    parts = ["ELMo"] if head["use_elmo"] else []
    if head["word_table_size"]:
        trained = "trained" if head["train_word_vectors"] else "fixed"
        parts.append(f"{trained} vectors of {head['word_table_size']:,} words")
    if head["character_filters"]:
        parts.append(f"{sum(count for _, count in head['character_filters']):,} features of characters")
    at_output = ", and ELMo again at the output of its lowest LSTM" if head.get("mix_at_output") else ""
    return " + ".join(parts) + at_output


def _what_it_knows(text: str) -> str:
    return f"It knows the labels, the language, the domain and the biases of its training {text} and no others."


def _describe_tagger(config: Mapping[str, Any], results: Mapping[str, Any]) -> TaskCard:
    head, are_spans = config["head"], results["tag_scheme"] == "spans"
    labels = [label for _, label in sorted(config["id2label"].items(), key=lambda item: int(item[0]))]
    settings = {"reads of each word": describe_inputs(head)}
    if head["lstm_layers"]:
        settings["biLSTM"] = f"{head['lstm_layers']} x {head['lstm_size']}"
    output_layer = "CRF" if head["output_layer"] == "crf" else "softmax"
    settings["output layer"] = f"{output_layer}, labels in {head['scheme']}" if head["scheme"] else output_layer
    counted = "An entity counts where its type and both its ends are right, as conlleval counts."
    return TaskCard(
        what="A token classifier",
        task_name="Token classification",
        tags=["token-classification"],
        pipeline_tag="token-classification",
        usage=f"""\
```python
import hf_elmo
from transformers import pipeline

tagger = pipeline("token-classification", model="{{name}}", aggregation_strategy="{"simple" if are_spans else "none"}")
for entity in tagger("A sentence of words ."):
    print(entity)
```""",
        intended_use=["To mark the words of sentences with the labels below, in text like that it was trained on."],
        limits=[_what_it_knows("sentences")],
        scores=["f1", "precision", "recall", "accuracy"],
        tables={"entities": "By type"},
        labels=labels,
        counts=["sentences", "words"],
        settings=settings,
        notes={"all": [counted if are_spans else "Each word counts by itself."]},
    )


def _describe_classifier(config: Mapping[str, Any], results: Mapping[str, Any]) -> TaskCard:
    labels, are_pairs = results["labels"], results["text_pairs"]
    example = '{"text": "A man sleeps .", "text_pair": "Nobody is awake ."}' if are_pairs else '"A sentence of words ."'
    usage = f"""\
```python
import hf_elmo
from transformers import pipeline

classifier = pipeline("text-classification", model="{{name}}")
print(classifier({example}))
```"""
    if any(label.lower().startswith("entail") for label in labels):
        usage += """

Any labels can be told apart by it, as far as it has learned what follows from what:

```python
classifier = pipeline("zero-shot-classification", model="{name}")
print(classifier("A sentence of words .", ["sport", "music"], hypothesis_template="This is about {} ."))
```"""
    notes = {}
    for split, prefix in _PREFIXES.items():
        if f"{prefix}by_class" in results:
            numbers = [figures["number"] for figures in results[f"{prefix}by_class"].values()]
            notes[split] = [f"Always the most frequent label: {100 * max(numbers) / sum(numbers):.2f} % right."]
    return TaskCard(
        what="A classifier of pairs of texts" if are_pairs else "A classifier of texts",
        task_name="Text classification",
        tags=["text-classification", *(["text-pair-classification"] if are_pairs else [])],
        pipeline_tag="text-classification",
        usage=usage,
        intended_use=[
            f"To give {'a pair of texts' if are_pairs else 'a text'} one of the labels below, in text like that it was "
            "trained on."
        ],
        limits=[_what_it_knows("texts")],
        scores=["accuracy", "macro_f1"],
        tables={"by_class": "By label", "confusion": "What the texts of each label were taken for"},
        labels=labels,
        counts=["texts", "words"],
        settings={"reads of each word": describe_inputs(config["head"]), "encoder": config["head"]["encoder"]},
        notes=notes,
    )


def _describe_reader(config: Mapping[str, Any], results: Mapping[str, Any]) -> TaskCard:
    head = config["head"]
    settings = {
        "reads of each word": describe_inputs(head),
        "reader": f"{head['reader']} of {head['hidden_size']}",
        "answers widened to whole words": ", ".join(
            f"{text['widened_answers']:,} of {split}" for split, text in results["data"].items()
        ),
    }
    if head["max_answer_words"]:
        settings["longest answer"] = f"{head['max_answer_words']} words"
    return TaskCard(
        what="A reader that answers questions",
        task_name="Question answering",
        tags=["question-answering"],
        pipeline_tag="question-answering",
        usage="""\
```python
import hf_elmo
from transformers import pipeline

answer = pipeline("extractive-question-answering", model="{name}")
print(answer(question="Who sat on the mat?", context="The cat sat on the mat."))
```

An answer has its place in the context, in characters, and a probability.""",
        intended_use=["To answer questions by pieces of a text that holds the answer, in text like it was trained on."],
        limits=[
            "It always answers, also where the text does not say.",
            "It knows the language, the domain and the biases of its training texts and no others.",
        ],
        scores=["exact_match", "f1"],
        counts=["questions", "contexts", "words"],
        settings=settings,
        notes={"all": ["As SQuAD 1.1 counts them, the best of several right answers."]},
    )


def _describe_coreference(config: Mapping[str, Any], results: Mapping[str, Any]) -> TaskCard:
    head = config["head"]
    kept = "a cluster of its own where its score as a mention is above zero" if head["keep_singletons"] else "left out"
    reads = "the document" if head["read_across_sentences"] else "each sentence"
    singletons = "Clusters of one mention count."
    if results["singletons"] != "keep":
        singletons = "Clusters of one mention are left out of data and predictions."
    notes = {"all": ["`mean F1` is the mean of the F1 of MUC, B-cubed and CEAFe.", singletons]}
    for split, text in results["data"].items():
        if text["out_of_reach"]:
            notes[split] = [
                f"{text['out_of_reach']:,} of {text['mentions']:,} mentions cannot be found: they are wider than "
                f"{head['max_span_width']} words, or stand in several sentences."
            ]
    return TaskCard(
        what="A coreference model",
        task_name="Coreference resolution",
        tags=["coreference"],
        pipeline_tag=None,
        usage="""\
```python
import hf_elmo
from transformers import pipeline

resolver = pipeline("coreference-resolution", model="{name}")
for cluster in resolver("Alice met her brother .")["clusters"]:
    print([(mention["text"], mention["start"], mention["end"]) for mention in cluster])
```""",
        intended_use=["To find which words of a document name the same, in text like that it was trained on."],
        limits=[
            "It knows the language, the domain and the biases of its training documents and no others; pronouns are "
            "given to whom these documents give them."
        ],
        scores=["mean_f1", "muc_f1", "b_cubed_f1", "ceafe_f1"],
        counts=["documents", "words", "mentions", "clusters"],
        settings={
            "reads of each word": describe_inputs(head),
            "biLSTM": f"{head['lstm_size']}, over {reads}",
            "spans": f"up to {head['max_span_width']} words, {head['spans_per_word']:g} for each word kept, up to "
            f"{head['max_antecedents']} antecedents",
            "a mention that nothing is linked to": kept,
        },
        notes=notes,
    )


def _describe_semantic_roles(config: Mapping[str, Any], results: Mapping[str, Any]) -> TaskCard:
    head = config["head"]
    found = ", or left out for the model to find them" if head["find_predicates"] else ""
    notes = {
        "all": [
            "By the count of CoNLL-2005, predicates given: an argument counts where its role and all its pieces are "
            "right; the predicate itself is left out."
        ]
    }
    for split, prefix in _PREFIXES.items():
        if f"{prefix}predicates" in results:
            figures = results[f"{prefix}predicates"]
            notes[split] = [
                f"Predicates that the model finds itself: F1 {100 * figures['f1']:.2f} of {figures['number']:,}."
            ]
    return TaskCard(
        what="A labeler of semantic roles",
        task_name="Semantic role labeling",
        tags=["token-classification", "semantic-role-labeling"],
        pipeline_tag="token-classification",
        usage=f"""\
```python
import hf_elmo
from transformers import pipeline

labeler = pipeline("semantic-role-labeling", model="{{name}}")
for frame in labeler({{"text": ["Alice", "gave", "Bob", "a", "book", "."], "predicates": [1]}})["frames"]:
    print(frame["predicate"], frame["tags"], frame["description"])
```

The indices of the `predicates` are given{found}. Without the package, `AutoModel.from_pretrained("{{name}}", \
trust_remote_code=True)` loads the model, which wants `predicate_mask` beside what the tokenizer gives.""",
        intended_use=["To say which words of a sentence are the arguments of a predicate, and in which role."],
        limits=["It knows the roles, the language, the domain and the biases of its training sentences and no others."],
        scores=["f1", "precision", "recall"],
        tables={"roles": "By role"},
        labels=sorted({label[2:] for label in config["id2label"].values() if label != "O"}),
        labels_title="Roles",
        counts=["sentences", "words", "predicates"],
        settings={
            "reads of each word": describe_inputs(head),
            "highway LSTMs": f"{head['num_layers']} x {head['hidden_size']}",
            "finds predicates": "yes" if head["find_predicates"] else "no",
        },
        notes=notes,
    )


_DESCRIBE: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any]], TaskCard]] = {
    "token-classification": _describe_tagger,
    "text-classification": _describe_classifier,
    "question-answering": _describe_reader,
    "coreference": _describe_coreference,
    "semantic-roles": _describe_semantic_roles,
}
