"""Pipelines of the tasks: transformers' for models that read a row of characters per word, and those that it lacks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from transformers import AutoModel, AutoModelForQuestionAnswering, Pipeline
from transformers.pipelines import PIPELINE_REGISTRY
from transformers.pipelines.base import ChunkPipeline
from transformers.pipelines.feature_extraction import FeatureExtractionPipeline
from transformers.pipelines.token_classification import AggregationStrategy, TokenClassificationPipeline
from transformers.utils import ModelOutput

from .model.configuration_elmo import ElmoConfig
from .model.modeling_elmo import pack_layers
from .model.modeling_elmo_coref import read_clusters
from .model.modeling_elmo_tasks import Span, best_spans, read_spans
from .text.raw_text import cut_sentences

# transformers 5 has no pipeline of this kind any more, and refuses its old name, question-answering.
QUESTION_ANSWERING = "extractive-question-answering"
# transformers never had one of these.
COREFERENCE = "coreference-resolution"
SEMANTIC_ROLES = "semantic-role-labeling"
# What BIOES says in IOB2: the last word of a span goes on with it, a span of one word begins one.
_AS_IOB2 = {"E-": "I", "S-": "B"}


class ElmoTokenClassificationPipeline(TokenClassificationPipeline):
    """Token classification where each token is a whole word, so that no strategy has subwords to join."""

    def gather_pre_entities(  # type: ignore[override]
        self,
        sentence: str,
        input_ids: np.ndarray,
        scores: np.ndarray,
        offset_mapping: Any,
        special_tokens_mask: np.ndarray,
        aggregation_strategy: AggregationStrategy,
        **places: Any,
    ) -> list[dict[str, Any]]:
        """One entry per word, with its place in the sentence; transformers' own reads one id per token, not a row."""
        if input_ids.ndim == 1:
            given = (sentence, input_ids, scores, offset_mapping, special_tokens_mask, aggregation_strategy)
            return super().gather_pre_entities(*given, **places)
        words, characters = places.get("word_ids"), places.get("word_to_chars_map")
        entities = []
        for index in np.flatnonzero(special_tokens_mask == 0):
            start, end = map(int, offset_mapping[index])
            if words is not None and characters is not None:
                # The offsets of a pre-split sentence count from the start of each word.
                word_start, _ = characters[words[index]]
                start, end = start + word_start, end + word_start
            found = {"word": sentence[start:end], "scores": scores[index], "start": start, "end": end}
            entities.append({**found, "index": int(index), "is_subword": False})
        return entities

    def get_tag(self, entity_name: str) -> tuple[str, str]:
        """The letter B or I of a label and its type; of BIOES, which transformers' own does not know, too."""
        if self.model.config.model_type == ElmoConfig.model_type and entity_name[:2] in _AS_IOB2:
            return _AS_IOB2[entity_name[:2]], entity_name[2:]
        return super().get_tag(entity_name)


class ElmoFeatureExtractionPipeline(FeatureExtractionPipeline):
    """Feature extraction that keeps only what it returns: a batch can then be taken apart sentence by sentence.

    Of a checkpoint of a task the vectors are those of the ELMo below its head, also where AutoModel loads the head too.
    """

    def _forward(self, model_inputs: dict[str, Any]) -> ModelOutput:  # type: ignore[override]
        is_ours = self.model.config.model_type == ElmoConfig.model_type
        model = self.model.base_model if is_ours else self.model
        return ModelOutput(features=model(**model_inputs)[0])


class _ReadsText:
    """What a pipeline loads beside its model: a tokenizer."""

    _load_tokenizer = True
    _load_processor = False
    _load_image_processor = False
    _load_feature_extractor = False


def context_windows(
    tokenizer: Any, question: str, context: str, max_length: int | None = None, stride: int | None = None
) -> Iterator[tuple[dict[str, Any], list[tuple[int, int] | None]]]:
    """A question beside its context, or beside each window of it: what the model reads, and where its words stand.

    Args:
        tokenizer, question, context: What is read.
        max_length: Words of the question and a window, special tokens included; None for the whole context.
        stride: Words that two windows share; None for half of those of the context that fit.
    Returns: Of each window the row that a model reads, by its arguments' names, and of each word in it the place in the
        context, in characters; None for special tokens and the question's words.
    Raises: ValueError naming max_length or stride, which leave no word of the context.
    """
    cut: dict[str, Any] = {}
    if max_length is not None:
        room = max_length - len(tokenizer(question)["input_ids"]) - 2
        cut = {"truncation": "only_second", "max_length": max_length}
        cut["stride"] = max(room, 0) // 2 if stride is None else stride
    encoded = tokenizer([question], [context], return_overflowing_tokens=True, **cut)
    for row, encoding in enumerate(encoded.encodings):
        places = zip(encoding.sequence_ids, encoding.offsets, strict=True)
        inputs = {name: encoded[name][row] for name in tokenizer.model_input_names}
        # Of words alone, so that padding on either side counts for nothing.
        yield inputs, [place if sequence == 1 else None for sequence, place in places]


class ElmoQuestionAnsweringPipeline(_ReadsText, ChunkPipeline):  # type: ignore[misc]
    """Answers as pieces of a context: `pipeline("extractive-question-answering")`.

    Called with `question` and `context`, a dict of both, or a list of such dicts; each answer is a dict of `answer`,
    its `start` and `end` in the context, and its `score`, the product of the probabilities of its two ends. A context
    is read whole unless `max_length` is given.

    Args:
        max_answer_words: Words that an answer may have; None leaves the model's bound.
        max_length: Words of a question and a piece of its context, special tokens included; longer contexts are read in
            windows, and the answer is the best of those of all windows.
        stride: Words that two windows share (default: half of the words of the context that fit).
    """

    def _sanitize_parameters(  # type: ignore[override]
        self, max_answer_words: int | None = None, max_length: int | None = None, stride: int | None = None
    ) -> tuple[dict, dict, dict]:
        windows = {name: value for name, value in (("max_length", max_length), ("stride", stride)) if value is not None}
        return windows, {}, {} if max_answer_words is None else {"max_answer_words": max_answer_words}

    def __call__(self, *args: Any, question: Any = None, context: Any = None, **kwargs: Any) -> Any:
        """Answer one question, or each of a list; see the class."""
        if args:
            return super().__call__(*args, **kwargs)
        if question is None or isinstance(question, str):
            return super().__call__({"question": question, "context": context}, **kwargs)
        contexts = [context] * len(question) if context is None or isinstance(context, str) else context
        if len(contexts) != len(question):
            raise ValueError(f"context holds {len(contexts)} texts, question {len(question)}; give one, or as many.")
        pairs = zip(question, contexts, strict=True)
        return super().__call__([{"question": one, "context": other} for one, other in pairs], **kwargs)

    def preprocess(  # type: ignore[override]
        self, inputs: Mapping[str, str], max_length: int | None = None, stride: int | None = None
    ) -> Iterator[dict[str, Any]]:
        """The windows of a context, one where it is read whole, each beside the question."""
        question, context = inputs["question"], inputs["context"]
        if not all(text and text.strip() for text in (question, context)):
            raise ValueError(f"question is {question!r} and context {context!r}; wanted texts with words.")
        windows = list(context_windows(self.tokenizer, question, context, max_length, stride))
        for number, (row, spans) in enumerate(windows, start=1):
            tensors = {name: torch.tensor([values]) for name, values in row.items()}
            yield {**tensors, "is_last": number == len(windows), "context": context, "spans": spans}

    def _forward(self, model_inputs: dict[str, Any]) -> dict[str, Any]:  # type: ignore[override]
        kept = {name: model_inputs.pop(name) for name in ("is_last", "context", "spans")}
        outputs = self.model(**model_inputs)
        mask = model_inputs["attention_mask"]
        return {"start": outputs.start_logits, "end": outputs.end_logits, "mask": mask, **kept}

    def postprocess(  # type: ignore[override]
        self, model_outputs: list[Any], max_answer_words: int | None = None
    ) -> dict[str, Any]:
        """The best answer of all windows."""
        bound = cast("Any", self.model).max_answer_words if max_answer_words is None else max_answer_words
        best, best_sum = None, -float("inf")
        for window in model_outputs:
            real = window["mask"][0].bool()
            start, end = (window[name][0][real].float().unsqueeze(0) for name in ("start", "end"))
            found = best_spans(start, end, bound)
            first, last = int(found.starts), int(found.ends)
            score = float(start[0, first] + end[0, last])
            spans = window["spans"]
            # Windows are compared by their logits, for each has probabilities of its own.
            if score > best_sum and spans[first] is not None and spans[last] is not None:
                best, best_sum = (spans[first][0], spans[last][1], float(found.probabilities)), score
        # None in a context of nothing but what the tokenizer leaves out.
        begin, stop, probability = best or (0, 0, 0.0)
        answer = model_outputs[0]["context"][begin:stop]
        return {"score": probability, "start": begin, "end": stop, "answer": answer}


class ElmoCoreferencePipeline(_ReadsText, Pipeline):  # type: ignore[misc]
    """Mentions that refer to the same, in clusters: `pipeline("coreference-resolution")`.

    Each text is one document: paragraphs, one a line, whose sentences are found by `cut_sentences`; with
    `is_tokenized=True` a line is a sentence and words stand between white space. The result is a dict of `text`,
    `sentences`, the words of each as the model reads them, and `clusters`, by their first mentions. A mention is a dict
    of `text`, `start` and `end`, in characters (text[start:end]), and `words`: its first word, counted over the
    document from 0, and the word behind its last one. Documents are computed one by one, whatever the batch_size.
    """

    def _sanitize_parameters(  # type: ignore[override]
        self, is_tokenized: bool | None = None
    ) -> tuple[dict, dict, dict]:
        return {} if is_tokenized is None else {"is_tokenized": is_tokenized}, {}, {}

    def get_iterator(self, inputs: Any, num_workers: int, batch_size: int, *parameters: Any) -> Any:
        return super().get_iterator(inputs, num_workers, 1, *parameters)

    def preprocess(self, text: str, is_tokenized: bool = False) -> dict[str, Any]:  # type: ignore[override]
        tokenizer = cast("Any", self.tokenizer)
        sentences: list[list[str]] = []
        offsets: list[tuple[int, int]] = []
        for line in re.finditer(".+", text):
            for start, end in [(0, len(line[0]))] if is_tokenized else cut_sentences(line[0]):
                sentence, start = line[0][start:end], start + line.start()
                if is_tokenized:
                    spans, words = [match.span() for match in re.finditer(r"\S+", sentence)], sentence.split()
                else:
                    spans, words = tokenizer.cutter.spans(sentence), tokenizer.tokenize(sentence)
                sentences += [words] if words else []
                offsets += [(start + first, start + behind) for first, behind in spans]
        document = {"text": text, "sentences": sentences, "offsets": offsets}
        if not sentences:
            return document
        encoded = tokenizer(sentences, is_split_into_words=True, padding=True, return_tensors="pt")
        return {**document, **encoded}

    def _forward(self, document: dict[str, Any]) -> dict[str, Any]:  # type: ignore[override]
        kept = {name: document.pop(name) for name in ("text", "sentences", "offsets")}
        return {**kept, "clusters": self.model(**document).clusters[0] if document else torch.empty(0, 3)}

    def postprocess(self, document: dict[str, Any]) -> dict[str, Any]:  # type: ignore[override]
        text, offsets = document["text"], document["offsets"]

        def describe(first: int, behind: int) -> dict[str, Any]:
            start, end = offsets[first][0], offsets[behind - 1][1]
            return {"text": text[start:end], "start": start, "end": end, "words": (first, behind)}

        clusters = [[describe(*mention) for mention in cluster] for cluster in read_clusters(document["clusters"])]
        return {"text": text, "sentences": document["sentences"], "clusters": clusters}


class ElmoSemanticRolesPipeline(_ReadsText, Pipeline):  # type: ignore[misc]
    """Predicates and their arguments: `pipeline("semantic-role-labeling")`.

    Called with a sentence, or a list of them. A sentence is a string, or a dict of `text`, a string or a list of words,
    and where they are known the `predicates`: the indices of their words, from 0. Without these the model finds them.
    The result is a dict of `words` and `frames`, one for each predicate in the order of the sentence: `predicate`, its
    `index`, `tags` by IOB2, and a `description`, `[ARG0 Alice] [V sleeps] .` The biLM reads each sentence once.
    """

    def _sanitize_parameters(self) -> tuple[dict, dict, dict]:  # type: ignore[override]
        return {}, {}, {}

    def preprocess(self, sentence: str | Mapping[str, Any]) -> dict[str, Any]:  # type: ignore[override]
        given: Mapping[str, Any] = {"text": sentence} if isinstance(sentence, str) else sentence
        tokenizer, text, predicates = cast("Any", self.tokenizer), given["text"], given.get("predicates")
        words = tokenizer.tokenize(text) if isinstance(text, str) else list(text)
        if predicates is None and cast("Any", self.model).finder is None:
            raise ValueError(
                "predicates is None, but this checkpoint does not find them; give their indices, or train one with "
                "--head find_predicates=true."
            )
        encoded = tokenizer([words], is_split_into_words=True, return_tensors="pt")
        marks = torch.zeros_like(encoded["attention_mask"])
        for index in predicates or ():
            if not 0 <= index < len(words):
                raise ValueError(f"predicates has {index} for {len(words)} words; expected the index of a word.")
            # Behind <S>.
            marks[0, index + 1] = 1
        return {**encoded, "predicates": marks, "are_unknown": torch.tensor([predicates is None]), "words": words}

    def _forward(self, batch: dict[str, Any]) -> dict[str, Any]:  # type: ignore[override]
        model = cast("Any", self.model)
        marks, are_unknown, words = (batch.pop(name) for name in ("predicates", "are_unknown", "words"))
        if model.uses_elmo and model.config.freeze_bilm:
            _, layers, _ = model.elmo.run_layers(batch["input_ids"], batch["attention_mask"])
            batch["packed_layers"] = pack_layers(layers)
        marks = marks.bool()
        if are_unknown.any():
            marks = torch.where(are_unknown[:, None], model(**batch).predicate_logits > 0, marks)
        rows, places = marks.nonzero(as_tuple=True)
        labels = [marks.new_empty((0, marks.shape[1]), dtype=torch.long)]
        # As many rows at once as there are sentences, however many predicates those have.
        for start in range(0, len(rows), len(marks)):
            part = slice(start, start + len(marks))
            inputs = {name: tensor[rows[part]] for name, tensor in batch.items()}
            predicate_mask = torch.nn.functional.one_hot(places[part], marks.shape[1])
            logits = model(**inputs, predicate_mask=predicate_mask).logits
            labels.append(model.decode(logits, inputs["input_ids"], inputs["attention_mask"]))
        found = torch.cat(labels)
        return {
            "predicates": marks,
            "attention_mask": batch["attention_mask"],
            "labels": [found[rows == row] for row in range(len(marks))],
            "words": words,
        }

    def postprocess(self, output: dict[str, Any]) -> dict[str, Any]:  # type: ignore[override]
        words, names = output["words"], cast("Any", self.model.config.id2label)
        start = int(output["attention_mask"][0].nonzero()[0]) + 1
        labels = output["labels"][0].reshape(-1, output["attention_mask"].shape[1])
        frames = []
        for place, row in zip(output["predicates"][0].nonzero().flatten().tolist(), labels.tolist(), strict=True):
            index, tags = place - start, [names[label] for label in row[start : start + len(words)]]
            description = put_in_brackets(words, read_spans(tags, "IOB2"))
            frames.append({"predicate": words[index], "index": index, "tags": tags, "description": description})
        return {"words": words, "frames": frames}


def put_in_brackets(words: Sequence[str], spans: Iterable[Span]) -> str:
    """The words with their spans in brackets: `[PER Alice Smith] sleeps .`"""
    shown = list(words)
    for span in spans:
        shown[span.start] = f"[{span.type} {shown[span.start]}"
        shown[span.stop - 1] += "]"
    return " ".join(shown)


def register_pipelines() -> None:
    """Have `pipeline` use these classes, and know the tasks that transformers lacks."""
    PIPELINE_REGISTRY.supported_tasks["token-classification"]["impl"] = ElmoTokenClassificationPipeline
    PIPELINE_REGISTRY.supported_tasks["feature-extraction"]["impl"] = ElmoFeatureExtractionPipeline
    # Not by register_pipeline, after which saving a pipeline writes into its config.json that it wants remote code.
    for task, implementation, auto_class in (
        (QUESTION_ANSWERING, ElmoQuestionAnsweringPipeline, AutoModelForQuestionAnswering),
        (COREFERENCE, ElmoCoreferencePipeline, AutoModel),
        (SEMANTIC_ROLES, ElmoSemanticRolesPipeline, AutoModel),
    ):
        PIPELINE_REGISTRY.supported_tasks[task] = {"impl": implementation, "pt": (auto_class,), "type": "text"}
