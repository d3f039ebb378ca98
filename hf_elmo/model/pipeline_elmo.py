"""Pipelines for models whose input ids are one row per word; for all other models they do what transformers' do."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from transformers.pipelines import PIPELINE_REGISTRY
from transformers.pipelines.feature_extraction import FeatureExtractionPipeline
from transformers.pipelines.token_classification import AggregationStrategy, TokenClassificationPipeline
from transformers.utils import ModelOutput

from .configuration_elmo import ElmoConfig

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
    """Feature extraction that keeps only what it returns: a batch can then be taken apart sentence by sentence."""

    def _forward(self, model_inputs: dict[str, Any]) -> ModelOutput:  # type: ignore[override]
        return ModelOutput(features=super()._forward(model_inputs)[0])


def register_pipelines() -> None:
    """Have `pipeline("token-classification")` and `pipeline("feature-extraction")` use these classes."""
    PIPELINE_REGISTRY.supported_tasks["token-classification"]["impl"] = ElmoTokenClassificationPipeline
    PIPELINE_REGISTRY.supported_tasks["feature-extraction"]["impl"] = ElmoFeatureExtractionPipeline
