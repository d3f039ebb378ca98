"""What all ELMo models share: initialisation, freezing and labels, and the base model with its scalar mixes.

Letters in shapes: B sentences, T words, C characters per word, P projection, H cell, L biLM layers, M scalar mixes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.utils import ModelOutput
from transformers.utils.generic import can_return_tuple

from .configuration_elmo import ElmoConfig
from .crf_elmo import ElmoCRF
from .inputs_elmo import IGNORED_LABEL, check_inputs, check_packed_layers, check_token_types, takes_usual_arguments
from .layers_elmo import ElmoBiLM, ElmoProjectedLSTM, ElmoScalarMix, ElmoState, unpack_layers
from .pairs_elmo import ElmoSentences, words_of_pairs
from .token_encoder_elmo import ElmoCarryGate, ElmoTokenEncoder
from .tracing_elmo import is_traced
from .word_table_elmo import NOT_FILLED, ElmoWordTable

Model = TypeVar("Model", bound="ElmoPreTrainedModel")


@dataclass
class ElmoModelOutput(ModelOutput):
    """What `ElmoModel` returns.

    Args:
        last_hidden_state: The first scalar mix, (B, T, 2P), zero where masked.
        hidden_states: With `output_hidden_states`, the L + 1 layers that the mixes weigh, each (B, T, 2P): the token
            encoder's vector twice, then each biLM layer's forward and backward halves.
        elmo_representations: All M scalar mixes, each (B, T, 2P).
        state: The LSTM states after this batch; None after pairs, whose sentences end apart, and after layers that
            were computed before.
    """

    last_hidden_state: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    elmo_representations: tuple[Tensor, ...] | None = None
    state: ElmoState | None = None


class ElmoPreTrainedModel(PreTrainedModel):
    """Weight initialisation, freezing and loading, shared by all ELMo models."""

    config_class = ElmoConfig
    config: ElmoConfig
    base_model_prefix = "elmo"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    _no_split_modules = ["ElmoBiLMLayer", "ElmoTokenEncoder"]

    def __init__(self, config: ElmoConfig, *args: Any, **kwargs: Any):
        # Fields may have been changed since the config was built.
        config.validate()
        super().__init__(config, *args, **kwargs)

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> Any:
        # Loading replaces each parameter by a new one that wants gradients.
        loaded = super().from_pretrained(*args, **kwargs)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        model._apply_freezing()
        return loaded

    def resize_token_embeddings(self, new_num_tokens: int | None = None, *args: Any, **kwargs: Any) -> nn.Embedding:
        """Return the input embeddings, which cannot be resized.

        Raises: ValueError where another size is asked for.
        """
        embeddings = self._base.get_input_embeddings()
        if new_num_tokens is not None and new_num_tokens != embeddings.num_embeddings:
            raise ValueError(
                f"new_num_tokens is {new_num_tokens}, but there are {embeddings.num_embeddings} input embeddings and "
                "no others can be added: every word is already written with the characters that there are. For other "
                "words in the softmax or in a word table, pre-train on with --model_name_or_path and --vocab_file."
            )
        return embeddings

    @property
    def _base(self) -> ElmoModel:
        return cast("ElmoModel", self.base_model)

    @property
    def _bilm_modules(self) -> tuple[nn.Module, nn.Module]:
        return self._base.token_encoder, self._base.bilm

    @property
    def _bilm_is_frozen(self) -> bool:
        return self.config.freeze_bilm and not self._base.is_pretraining

    def freeze_bilm(self, freeze: bool = True) -> None:
        """Fix the token encoder and the biLM, or with `freeze=False` let them be trained along with the task.

        A fixed biLM gets no gradients and no dropout; the scalar mixes and the task's layers are always trained.
        """
        self.config.freeze_bilm = freeze
        self._apply_freezing()
        self.train(self.training)

    def _apply_freezing(self) -> None:
        for module in self._bilm_modules:
            module.requires_grad_(not self._bilm_is_frozen)
        table = self._base.token_encoder.word_table
        if table is not None and not self.config.train_word_vectors:
            table.requires_grad_(False)
        for mix in cast("Iterable[ElmoScalarMix]", self._base.mixes):
            if mix.fixed_shares is not None:
                mix.weight.requires_grad_(False)
            if mix.alignment is not None:
                mix.alignment.requires_grad_(False)

    def train(self: Model, mode: bool = True) -> Model:
        """As torch.nn.Module.train, but a frozen biLM stays in evaluation mode."""
        super().train(mode)
        if self._bilm_is_frozen:
            for module in self._bilm_modules:
                module.eval()
        return self

    def layer_shares(self) -> list[list[float]]:
        """How much each mix takes of each layer, the token encoder's first: which layers does a task use?"""
        return [mix.shares().tolist() for mix in cast("Iterable[ElmoScalarMix]", self._base.mixes)]

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Initialise one module that owns parameters, as the released models were (bilm-tf's training code)."""
        if isinstance(module, ElmoProjectedLSTM):
            # Glorot uniform over the stacked [input; recurrent] matrix, TensorFlow's default for its LSTM cell.
            cell_size, projection_size = len(module.bias) // 4, module.weight_ih.shape[1]
            bound = math.sqrt(6 / (2 * projection_size + 4 * cell_size))
            init.uniform_(module.weight_ih, -bound, bound)
            init.uniform_(module.weight_hh, -bound, bound)
            init.zeros_(module.bias)
            if module.weight_hr is not None:
                bound = math.sqrt(6 / (projection_size + cell_size))
                init.uniform_(module.weight_hr, -bound, bound)
        elif isinstance(module, ElmoScalarMix):
            init.zeros_(module.weight)
            init.ones_(module.scale)
            if module.alignment is not None:
                count, size, _ = module.alignment.shape
                init.copy_(module.alignment, torch.eye(size).expand(count, size, size))
        elif isinstance(module, ElmoCRF):
            for parameter in module.parameters():
                init.zeros_(parameter)
        elif isinstance(module, nn.Embedding):
            init.uniform_(module.weight, -1.0, 1.0)
            if module.padding_idx is not None and not getattr(module.weight, "_is_hf_initialized", False):
                init.zeros_(module.weight[module.padding_idx])
            if isinstance(module, ElmoWordTable):
                init.constant_(module.hashes, NOT_FILLED)
        elif isinstance(module, nn.Conv1d):
            if self.config.filter_activation == "relu":
                init.uniform_(module.weight, -0.05, 0.05)
            else:
                init.normal_(module.weight, std=math.sqrt(1 / (module.kernel_size[0] * module.in_channels)))
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, nn.RNNBase):
            for name, parameter in module.named_parameters():
                if name.startswith("weight"):
                    init.xavier_uniform_(parameter)
                else:
                    init.zeros_(parameter)
        elif isinstance(module, nn.Linear):
            init.normal_(module.weight, std=math.sqrt(1 / module.in_features))
            if module.bias is not None:
                init.constant_(module.bias, -2.0 if isinstance(module, ElmoCarryGate) else 0.0)


class ElmoModel(ElmoPreTrainedModel):
    """Words in, one contextual vector per word out: token encoder, biLM and the scalar mixes over its layers."""

    _auto_class = "AutoModel"  # type: ignore[assignment]
    _keys_to_ignore_on_load_unexpected = [r"word_softmax(_backward)?\."]

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        self.token_encoder = ElmoTokenEncoder(config)
        self.bilm = ElmoBiLM(config)
        self.is_pretraining = False  # set by ElmoForPreTraining, which trains the biLM whatever the config says
        self.mixes = nn.ModuleList(ElmoScalarMix(config) for _ in range(config.num_mixes))
        self.post_init()
        self._apply_freezing()

    def get_input_embeddings(self) -> nn.Embedding:
        encoder = self.token_encoder
        if encoder.character_embedding is not None:
            return encoder.character_embedding
        # There is a table where there are no characters.
        return cast("nn.Embedding", encoder.word_table)

    def set_input_embeddings(self, value: nn.Module) -> None:
        name = "word_table" if self.token_encoder.character_embedding is None else "character_embedding"
        setattr(self.token_encoder, name, value)

    @can_return_tuple
    @takes_usual_arguments
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        state: ElmoState | None = None,
        output_hidden_states: bool | None = None,
        *,
        token_type_ids: Tensor | None = None,
        packed_layers: Tensor | None = None,
    ) -> ElmoModelOutput:
        """Compute the vectors of a batch of sentences, or of pairs of them.

        Masked words get zeros and change nothing else: padding, batch mates and their order leave every real word's
        vector as it is. A row without any real word gives zeros and hands its state through. Of a pair each sentence
        is read on its own, so that its words have the vectors that they have without the other one.

        Args:
            input_ids: Character ids from `ElmoCharTokenizer`, (B, T, C).
            attention_mask: 1 for real words, (B, T); None takes every row of `input_ids` that is not all zeros.
            state: The `state` of an earlier output on as many rows, to carry on where those ended; None starts from
                zeros, so that the same batch always gives the same vectors.
            output_hidden_states: Whether to return the layers; None takes the config's setting.
            token_type_ids: 1 for the words of the second sentence of a pair, 0 for all others, (B, T); None where no
                row is a pair.
            packed_layers: The layers of these words where they were computed before (`layers_elmo.pack_layers`),
                (B, T, P + 2PL), zero where masked; a frozen biLM is then not run. There is no state after them.
        Raises: ValueError or TypeError naming the argument, what it was and what is wanted.
        """
        mask, layers, state = self.run_layers(input_ids, attention_mask, state, token_type_ids, packed_layers)
        representations = tuple(mix(layers, mask) for mix in self.mixes)
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        return ElmoModelOutput(
            last_hidden_state=representations[0],
            hidden_states=tuple(layers) if output_hidden_states else None,
            elmo_representations=representations,
            state=state,
        )

    def run_layers(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        state: ElmoState | None = None,
        token_type_ids: Tensor | None = None,
        packed_layers: Tensor | None = None,
    ) -> tuple[Tensor, list[Tensor], ElmoState | None]:
        """Check a batch and compute its layers, without mixing them; arguments as `forward`'s.

        Returns: The mask, True for real words, (B, T); the L + 1 layers, each (B, T, 2P); the states after the batch,
            None after pairs and with `packed_layers`.
        """
        check_inputs(self.config, input_ids, attention_mask, state)
        mask = self.word_mask(input_ids, attention_mask)
        if packed_layers is not None:
            check_packed_layers(self.config, packed_layers, input_ids, state, self._bilm_is_frozen)
            packed_layers = packed_layers.to(self.token_encoder.dtype)
            return mask, unpack_layers(packed_layers, self.config.projection_size), None
        has_padding = is_traced() or not bool(mask.all())
        vectors = self._encode_words(input_ids, mask if has_padding else None)
        if token_type_ids is not None and check_token_types(token_type_ids, input_ids, state):
            pairs = ElmoSentences(*words_of_pairs(mask, token_type_ids))
            outputs, state = self._read_pairs(pairs, input_ids, vectors), None
        else:
            if state is not None:
                # A state may come from a model in another precision.
                state = ElmoState(hidden=state.hidden.to(vectors.dtype), cell=state.cell.to(vectors.dtype))
            outputs, state = self.bilm(vectors, vectors, mask if has_padding else None, state)
        layers = [torch.cat([vectors, vectors], dim=-1)]
        layers.extend(torch.cat(directions, dim=-1) for directions in outputs)
        return mask, layers, state

    def _read_pairs(self, pairs: ElmoSentences, input_ids: Tensor, vectors: Tensor) -> list[tuple[Tensor, ...]]:
        """The biLM's outputs for the words of pairs, whose sentences it reads apart."""
        sentences = pairs.apart(vectors)
        if self.bilm.training or is_traced():
            # Each copy of a sentence has its own dropout; how many copies there are is not known in a trace.
            outputs, _ = self.bilm(sentences, sentences, pairs.mask)
        else:
            # One context may stand beside many questions, one premise beside several hypotheses.
            first, places = pairs.find_distinct(input_ids)
            sentences = sentences[first]
            outputs, _ = self.bilm(sentences, sentences, pairs.mask[first])
            outputs = [tuple(output.index_select(0, places) for output in directions) for directions in outputs]
        return [tuple(map(pairs.together, directions)) for directions in outputs]

    def _encode_words(self, input_ids: Tensor, mask: Tensor | None) -> Tensor:
        """The token vectors of a batch, (B, T, P), zero where masked; a mask of None hides nothing."""
        if mask is None:
            return self.token_encoder.encode_distinct(input_ids.flatten(0, 1)).unflatten(0, input_ids.shape[:2])
        if is_traced():
            # How many words are real, and which of them are alike, is not known: all are computed.
            vectors = self.token_encoder(input_ids.flatten(0, 1)).unflatten(0, mask.shape)
            return torch.where(mask.unsqueeze(-1), vectors, 0.0)
        real_vectors = self.token_encoder.encode_distinct(input_ids[mask])
        vectors = real_vectors.new_zeros(*mask.shape, self.config.projection_size)
        vectors[mask] = real_vectors
        return vectors

    def word_mask(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """True for real words, (B, T): the attention mask or, where there is none, every row that is not all zeros."""
        if attention_mask is None:
            return (input_ids != self.config.pad_token_id).any(dim=-1)
        return attention_mask.bool()


def mean_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross entropy in nats over the labels that are not -100; zero, not nan, where there is none."""
    labels = labels.long()
    total = F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), ignore_index=IGNORED_LABEL, reduction="sum")
    return total / (labels != IGNORED_LABEL).sum().clamp(min=1)
