"""What tasks read for each word: the mixes of a biLM's layers, and beside them word vectors and a small character CNN.

Letters in shapes: B sentences, T words, C characters per word, N words of a flat list, P projection, M scalar mixes,
V word vector, F filters, D all that is given for a word.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.utils import ModelOutput
from transformers.utils.generic import can_return_tuple

from .base_elmo import ElmoModel, ElmoPreTrainedModel
from .characters_elmo import BEGIN_SENTENCE, END_SENTENCE
from .configuration_elmo import ElmoConfig
from .dropout_elmo import ElmoDropout
from .head_settings_elmo import EmbeddingsHead, WordInputsHead
from .inputs_elmo import check_inputs, check_token_types, takes_usual_arguments
from .layers_elmo import ElmoScalarMix, ElmoState
from .pairs_elmo import words_of_pairs
from .token_encoder_elmo import ElmoCharacterFilters, distinct_rows
from .tracing_elmo import is_traced
from .word_table_elmo import ElmoWordTable

# The ids of the capitals A to Z, and how far the small letters lie behind them.
_CAPITALS = (ord("A") + 1, ord("Z") + 1)
_TO_SMALL = ord("a") - ord("A")


@dataclass
class ElmoEmbeddingsOutput(ModelOutput):
    """What `ElmoEmbeddings` returns, and what a task's model reads; the vectors lie behind dropout, zero where masked.

    Args:
        last_hidden_state: What a task's first layer reads: the first mix, the word vector and the characters'
            features side by side, as far as there are any, (B, T, D).
        elmo_representations: All M mixes, each (B, T, 2P), the first one again: with `num_mixes=2` the second is for
            the output of the task's own encoder (Peters et al. 2018, sec. 3.3). None without ELMo.
        mask: True for real words, (B, T).
        hidden_states: The biLM's layers where they are asked for; see `ElmoModelOutput`.
    """

    last_hidden_state: Tensor | None = None
    elmo_representations: tuple[Tensor, ...] | None = None
    mask: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None


class ElmoWordFeatures(nn.Module):
    """What stands beside ELMo: vectors of known words, and features of the characters of any word.

    Args:
        config: Of the model, for what its character ids are.
        head: Which of the two there are.

    Attributes:
        size: Numbers for a word, V + F; 0 where there is neither.
    """

    def __init__(self, config: ElmoConfig, head: WordInputsHead):
        super().__init__()
        if head.lower_case_words and config.character_scheme != "bytes":
            raise ValueError(
                f"lower_case_words is True but character_scheme is {config.character_scheme!r}, in which A to Z "
                "are no row of ids; leave it out, and fill the table with the words as they stand in text."
            )
        self.padding = cast("int", config.padding_character_id)
        self.lower_case_words = head.lower_case_words
        self.train_word_vectors = head.train_word_vectors
        self.size = 0
        self.word_table: ElmoWordTable | None = None
        if head.word_table_size is not None and head.word_vector_size is not None:
            self.word_table = ElmoWordTable(head.word_table_size, head.word_vector_size)
            self.size += head.word_vector_size
        self.characters: nn.Embedding | None = None
        if head.character_filters:
            self.characters = nn.Embedding(config.vocab_size, head.character_embedding_size, config.pad_token_id)
        self.filters = nn.ModuleList(
            ElmoCharacterFilters(head.character_embedding_size, count, width) for width, count in head.character_filters
        )
        self.size += sum(count for _, count in head.character_filters)

    def forward(self, input_ids: Tensor, mask: Tensor) -> Tensor:
        """The features of a batch, (B, T, C) with mask (B, T) to (B, T, V + F); zero where masked."""
        if is_traced():
            vectors = self._encode(input_ids.flatten(0, 1)).unflatten(0, mask.shape)
            return torch.where(mask.unsqueeze(-1), vectors, 0.0)
        distinct, places = distinct_rows(input_ids[mask])
        real_vectors = F.embedding(places, self._encode(distinct))
        vectors = real_vectors.new_zeros(*mask.shape, self.size)
        vectors[mask] = real_vectors
        return vectors

    def apply_freezing(self) -> None:
        """Fix the word vectors where the settings say so; loading a checkpoint lets them be trained."""
        if self.word_table is not None and not self.train_word_vectors:
            self.word_table.requires_grad_(False)

    def _encode(self, rows: Tensor) -> Tensor:
        """The features of words, (N, C) to (N, V + F)."""
        parts = []
        if self.word_table is not None:
            is_capital = (rows >= _CAPITALS[0]) & (rows <= _CAPITALS[1])
            parts.append(self.word_table(rows + _TO_SMALL * is_capital if self.lower_case_words else rows))
        if self.characters is not None:
            longest = rows.shape[1]
            if not is_traced() and len(rows):
                # All windows that hold nothing but padding are alike: the first of them stands for the rest.
                places = torch.arange(1, longest + 1, device=rows.device)
                longest = int(((rows != self.padding) * places).max())
            vectors = self.characters(rows)
            for filters in cast("Iterable[ElmoCharacterFilters]", self.filters):
                parts.append(torch.relu(filters(vectors[:, : longest + filters.kernel_size[0]])))
        return torch.cat(parts, dim=-1)


class ElmoTaskModel(ElmoPreTrainedModel):
    """What the models of all tasks are made on: a vector for each word, from ELMo and from what stands beside it.

    A subclass adds its own layers, then calls `post_init` and `_apply_freezing`. In its forward it reads the words by
    `embed`, and adds `penalty` to its loss.

    Args:
        config: Of the model.
        head: The settings of the task's head, which are the config's.
        num_read_mixes: How many of the mixes the task reads; the config gets as many where it has fewer.

    Attributes:
        input_size: Size D of the vector of a word.
        mix_size: Size 2P of a mix.
    """

    _keys_to_ignore_on_load_unexpected = [r"word_softmax(_backward)?\."]

    def __init__(self, config: ElmoConfig, head: WordInputsHead, num_read_mixes: int = 1):
        config.num_mixes = max(config.num_mixes, num_read_mixes)
        super().__init__(config)
        self.uses_elmo = head.use_elmo
        self.num_read_mixes = num_read_mixes
        self.elmo = ElmoModel(config)
        self.features = ElmoWordFeatures(config, head)
        self.dropout: nn.Module = ElmoDropout(head.dropout)
        self.mix_size = 2 * config.projection_size
        self.input_size = self.mix_size * head.use_elmo + self.features.size

    def embed(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        state: ElmoState | None = None,
        output_hidden_states: bool | None = None,
        *,
        token_type_ids: Tensor | None = None,
        packed_layers: Tensor | None = None,
    ) -> ElmoEmbeddingsOutput:
        """Check a batch and give the vectors of its words; arguments as `ElmoModel`'s.

        Raises: ValueError or TypeError naming the argument, what it was and what is wanted.
        """
        mixes = hidden_states = None
        parts: list[Tensor] = []
        if self.uses_elmo:
            outputs = self.elmo(
                input_ids,
                attention_mask,
                state,
                output_hidden_states=output_hidden_states,
                token_type_ids=token_type_ids,
                packed_layers=packed_layers,
                return_dict=True,
            )
            mixes = tuple(map(self.dropout, outputs.elmo_representations[: self.num_read_mixes]))
            hidden_states = outputs.hidden_states
            parts.append(mixes[0])
        else:
            check_inputs(self.config, input_ids, attention_mask, state)
            if token_type_ids is not None:
                check_token_types(token_type_ids, input_ids, state)
        mask = self.elmo.word_mask(input_ids, attention_mask)
        if self.features.size:
            parts.append(self.dropout(self.features(input_ids, mask)))
        vectors = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
        return ElmoEmbeddingsOutput(
            last_hidden_state=vectors, elmo_representations=mixes, mask=mask, hidden_states=hidden_states
        )

    def penalty(self) -> Tensor:
        """What to add to the task's loss, once a step: mix_l2 times the squared norm of the mixes' weights.

        The norm is that of the weights before their softmax, so that it draws the shares towards an even mix. A loss
        that is summed over a batch wants a larger mix_l2 than one that is a mean (Peters et al. 2018, sec. 3.3).
        """
        mixes = cast("Iterable[ElmoScalarMix]", self.elmo.mixes[: self.num_read_mixes])
        return self.config.mix_l2 * torch.stack([mix.squared_norm() for mix in mixes]).sum()

    def is_marker(self, input_ids: Tensor, mask: Tensor) -> Tensor:
        """Where the markers of sentences stand, (B, T): at their ends, for a word may look like one."""
        count = mask.long().cumsum(dim=1)
        is_end = mask & ((count == 1) | (count == count[:, -1:]))
        # In no scheme does any other word hold these characters.
        config = self.config
        begin = BEGIN_SENTENCE if config.bos_token_id is None else config.bos_token_id
        end = END_SENTENCE if config.eos_token_id is None else config.eos_token_id
        return is_end & ((input_ids[..., 1] == begin) | (input_ids[..., 1] == end))

    def without_markers(self, input_ids: Tensor, mask: Tensor, token_type_ids: Tensor | None) -> Tensor:
        """The mask without the markers of each text, or of both texts of each pair, (B, T)."""
        for of_text in (mask,) if token_type_ids is None else words_of_pairs(mask, token_type_ids):
            mask = mask & ~self.is_marker(input_ids, of_text)
        return mask

    def _apply_freezing(self) -> None:
        super()._apply_freezing()
        self.features.apply_freezing()
        # What is not read would wait for gradients that never come.
        self.elmo.mixes[self.num_read_mixes :].requires_grad_(False)
        if not self.uses_elmo:
            self.elmo.requires_grad_(False)


class ElmoEmbeddings(ElmoTaskModel):
    """The ELMo layer for any PyTorch model of one's own (Peters et al. 2018, sec. 3.3).

    It is a module as any other: its states are saved with those of the model around it, and a frozen biLM
    (`freeze_bilm`, the default) stays in evaluation mode, without gradients, whatever mode the model around it is in.
    A word table has to be filled before its first use (`hf_elmo.text.word_vectors.build_word_table`).

    The config says what there is: `num_mixes`, `mixed_layers`, `mix_normalization`, `mix_l2` and `freeze_bilm`, and in
    its `head`, an `EmbeddingsHead`, dropout, word vectors and characters:
    `ElmoEmbeddings.from_pretrained(name, num_mixes=2, head=EmbeddingsHead(dropout=0.3))`.

    Attributes:
        output_size: Size D of `last_hidden_state`.
        mix_size: Size 2P of a mix.
    """

    # So that the code is saved with it; what AutoModel finds in its checkpoints is the ElmoModel.
    _auto_class = "AutoModel"  # type: ignore[assignment]

    def __init__(self, config: ElmoConfig):
        super().__init__(config, config.require_head(EmbeddingsHead), config.num_mixes)
        self.output_size = self.input_size
        self.post_init()
        self._apply_freezing()

    @can_return_tuple
    @takes_usual_arguments
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        output_hidden_states: bool | None = None,
        *,
        token_type_ids: Tensor | None = None,
        packed_layers: Tensor | None = None,
    ) -> ElmoEmbeddingsOutput:
        """Give the vectors of the words of a batch.

        Args:
            input_ids: Character ids from `ElmoCharTokenizer`, (B, T, C).
            attention_mask: 1 for real words, (B, T); None takes every row of `input_ids` that is not all zeros.
            output_hidden_states: Whether to return the biLM's layers; None takes the config's setting.
            token_type_ids: 1 for the words of the second sentence of a pair, (B, T); see `ElmoModel`.
            packed_layers: The biLM's layers where they were computed before, (B, T, P + 2PL); see `ElmoModel`.
        Raises: ValueError or TypeError naming the argument, what it was and what is wanted.
        """
        return self.embed(
            input_ids,
            attention_mask,
            output_hidden_states=output_hidden_states,
            token_type_ids=token_type_ids,
            packed_layers=packed_layers,
        )
