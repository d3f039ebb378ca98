"""Pipelines for models whose input ids are one row per word; for all other models they do what transformers' do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import numpy as np
import torch
from transformers import AutoModelForQuestionAnswering
from transformers.pipelines import PIPELINE_REGISTRY
from transformers.pipelines.base import ChunkPipeline
from transformers.pipelines.feature_extraction import FeatureExtractionPipeline
from transformers.pipelines.token_classification import AggregationStrategy, TokenClassificationPipeline
from transformers.utils import ModelOutput

from .model.configuration_elmo import ElmoConfig
from .model.modeling_elmo_tasks import best_spans

# transformers 5 has no pipeline of this kind any more, and refuses its old name, question-answering.
QUESTION_ANSWERING = "extractive-question-answering"
# The last word of a span goes on with it, a span of one word begins one.
_AS_IOB2 = {"E-": "I", "S-": "B"}


class ElmoTokenClassificationPipeline(TokenClassificationPipeline):
    """Token classification where each token is a whole word, so that no strategy has subwords to join."""

    def gather_pre_entities(
        self,
        sentence: str,
        input_ids: np.ndarray,
        scores: np.ndarray,
        offset_mapping: list[tuple[int, int]] | None,
        special_tokens_mask: np.ndarray,
        aggregation_strategy: AggregationStrategy,
        word_ids: list[int | None] | None = None,
        word_to_chars_map: list[tuple[int, int]] | None = None,
    ) -> list[dict[str, Any]]:
        """One entry per word, with its place in the sentence; transformers' own reads one id per token, not a row."""
        if input_ids.ndim == 1:
            return super().gather_pre_entities(
                sentence,
                input_ids,
                scores,
                offset_mapping,
                special_tokens_mask,
                aggregation_strategy,
                word_ids=word_ids,
                word_to_chars_map=word_to_chars_map,
            )
        # A tokenizer with offsets gives them for each word.
        spans, words = cast("list[tuple[int, int]]", offset_mapping), cast("list[int] | None", word_ids)
        entities = []
        for index in np.flatnonzero(special_tokens_mask == 0):
            start, end = (int(offset) for offset in spans[index])
            if words is not None and word_to_chars_map is not None:
                # The offsets of a pre-split sentence count from the start of each word.
                word_start, _ = word_to_chars_map[words[index]]
                start, end = start + word_start, end + word_start
            entities.append(
                {
                    "word": sentence[start:end],
                    "scores": scores[index],
                    "start": start,
                    "end": end,
                    "index": int(index),
                    "is_subword": False,
                }
            )
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


class ElmoQuestionAnsweringPipeline(ChunkPipeline):
    """Answers as pieces of a context: `pipeline("extractive-question-answering")`.

    Called with `question` and `context`, or with a dict of both, or with a list of such dicts; each answer is a dict of
    `answer`, its `start` and `end` in the context as it was given, context[start:end], and its `score`, the product of
    the probabilities of its two ends. A context is read whole unless `max_length` is given.

    Further arguments of a call, or of the pipeline:

    - max_answer_words: Words that an answer may have; None leaves the model's bound.
    - max_length: Words of a question and a piece of its context, the markers included; longer contexts are read in
      windows, and the answer is the best of those of all windows.
    - stride: Words that two windows share (default: half of the words of the context that fit).
    """

    _load_tokenizer = True  # type: ignore[assignment]
    _load_processor = False  # type: ignore[assignment]
    _load_image_processor = False  # type: ignore[assignment]
    _load_feature_extractor = False  # type: ignore[assignment]

    def _sanitize_parameters(
        self,
        max_answer_words: int | None = None,
        max_length: int | None = None,
        stride: int | None = None,
        **kwargs: Any,
    ) -> tuple[dict, dict, dict]:
        if kwargs:
            raise ValueError(
                f"{QUESTION_ANSWERING} has no argument {min(kwargs)!r}; it takes question, context, max_answer_words, "
                "max_length and stride."
            )
        if stride is not None and max_length is None:
            raise ValueError(f"stride is {stride}, but there are no windows without max_length; give it too.")
        windows = {name: value for name, value in (("max_length", max_length), ("stride", stride)) if value is not None}
        return windows, {}, {} if max_answer_words is None else {"max_answer_words": max_answer_words}

    def __call__(self, *args: Any, question: Any = None, context: Any = None, **kwargs: Any) -> Any:
        """Answer one question, or each of a list; see the class."""
        if question is not None or context is not None:
            if args:
                raise ValueError("question and context are given beside other inputs; wanted one or the other.")
            return super().__call__(_as_inputs(question, context), **kwargs)
        return super().__call__(*args, **kwargs)

    def preprocess(  # type: ignore[override]
        self, inputs: Mapping[str, str], max_length: int | None = None, stride: int | None = None
    ) -> Iterator[dict[str, Any]]:
        """The windows of a context, one where it is read whole, each beside the question."""
        texts = [str(inputs.get(name) or "") if isinstance(inputs, Mapping) else "" for name in ("question", "context")]
        for name, text in zip(("question", "context"), texts, strict=True):
            if not text.strip():
                raise ValueError(f"{name} is {text[:80]!r}; wanted a text with words, for each question.")
        tokenizer = cast("Any", self.tokenizer)
        windows: dict[str, Any] = {}
        if max_length is not None:
            room = max_length - len(tokenizer(texts[0])["input_ids"]) - 2
            if room < 1:
                raise ValueError(
                    f"max_length is {max_length}, which leaves no word for the context beside the question "
                    f"{texts[0][:80]!r}; take a larger one."
                )
            windows = {"truncation": "only_second", "max_length": max_length, "return_overflowing_tokens": True}
            windows["stride"] = room // 2 if stride is None else stride
        encoded = tokenizer(*([text] for text in texts), **windows)
        count = len(encoded["input_ids"])
        for index, encoding in enumerate(encoded.encodings):
            spans = zip(encoding.sequence_ids, encoding.offsets, strict=True)
            yield {
                **{name: torch.tensor(encoded[name][index : index + 1]) for name in tokenizer.model_input_names},
                "is_last": index == count - 1,
                "context": texts[1],
                # Of words alone, so that padding on either side counts for nothing.
                "spans": [span if sequence == 1 else None for sequence, span in spans],
            }

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
        if best is None:
            # A context of nothing but what the tokenizer leaves out.
            return {"score": 0.0, "start": 0, "end": 0, "answer": ""}
        begin, stop, probability = best
        return {
            "score": probability,
            "start": begin,
            "end": stop,
            "answer": model_outputs[0]["context"][begin:stop],
        }


def _as_inputs(question: Any, context: Any) -> Any:
    """One dict of a question and its context, or a list of them; one context may belong to all questions."""
    if isinstance(question, str) and isinstance(context, str):
        return {"question": question, "context": context}
    questions = [question] if isinstance(question, str) or question is None else list(question)
    contexts = [context] * len(questions) if isinstance(context, str) or context is None else list(context)
    if len(questions) != len(contexts):
        raise ValueError(
            f"question has {len(questions)} texts and context {len(contexts)}; wanted a context for each question, or "
            "one for all."
        )
    return [{"question": one, "context": other} for one, other in zip(questions, contexts, strict=True)]


def register_pipelines() -> None:
    """Have `pipeline` use these classes, and know the task extractive-question-answering."""
    PIPELINE_REGISTRY.supported_tasks["token-classification"]["impl"] = ElmoTokenClassificationPipeline
    PIPELINE_REGISTRY.supported_tasks["feature-extraction"]["impl"] = ElmoFeatureExtractionPipeline
    # Not by register_pipeline, after which saving a pipeline writes into its config.json that it wants remote code.
    PIPELINE_REGISTRY.supported_tasks[QUESTION_ANSWERING] = {
        "impl": ElmoQuestionAnsweringPipeline,
        "pt": (AutoModelForQuestionAnswering,),
        "type": "text",
    }
